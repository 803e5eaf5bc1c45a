import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { App } from "./app.tsx";
import { listen } from "./feed-client.ts";
import { LiveStore } from "./live-store.ts";

const root = document.getElementById("app");
if (root === null) throw new Error("the page has no #app");
const store = new LiveStore();
listen(store);
render(<App store={store} />, root);
