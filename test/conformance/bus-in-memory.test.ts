import { type InMemoryBus, InMemoryNetwork, covers } from "@tutti/ports/bus";
import { busConformance } from "./bus.suite.ts";

const network = new InMemoryNetwork({ payloadMax: 1_048_576 });
const open: InMemoryBus[] = [];
let count = 0;

busConformance("in memory", () => ({
  connect: async () => connect({}),
  connectRestricted: async () => {
    const inbox = "_INBOX.restricted.>";
    const may = (subject: string): boolean => covers("open.>", subject) || covers(inbox, subject);
    return connect({ mayPublish: may, maySubscribe: may });
  },
  cut: async () => open.forEach((bus) => bus.disconnect()),
  heal: async () => open.forEach((bus) => bus.reconnect()),
  closeAll: async () => {
    await Promise.all(open.splice(0).map((bus) => new Promise<void>((resolve) => bus.close(resolve))));
  },
}));

function connect(may: Pick<Parameters<typeof network.connect>[0], "mayPublish" | "maySubscribe">): InMemoryBus {
  const bus = network.connect({ name: `c${++count}`, ...may });
  open.push(bus);
  return bus;
}
