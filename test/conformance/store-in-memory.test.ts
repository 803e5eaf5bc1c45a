import { InMemoryStore } from "@tutti/ports/store";
import { storeConformance } from "./store.suite.ts";

const store = new InMemoryStore();

storeConformance("in memory", () => ({
  open: async () => store,
  cut: async () => {
    store.available = false;
  },
  heal: async () => {
    store.available = true;
  },
  closeAll: async () => {},
}));
