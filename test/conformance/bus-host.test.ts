import {
  type Bus,
  HostBus,
  InMemoryNetwork,
  type LinkEnd,
  type LinkHandlers,
  type LinkMessage,
  covers,
} from "@tutti/ports/bus";
import { busConformance } from "./bus.suite.ts";

const network = new InMemoryNetwork({ payloadMax: 1_048_576 });
type Under = ReturnType<typeof network.connect>;

interface Process {
  readonly under: Under;
  readonly host: HostBus;
}
const processes: Process[] = [];
let count = 0;

function startProcess(may: Pick<Parameters<typeof network.connect>[0], "mayPublish" | "maySubscribe"> = {}): Process {
  const under = network.connect({ name: `p${++count}`, noEcho: true, ...may });
  const process = { under, host: new HostBus({ under }) };
  processes.push(process);
  return process;
}

const restricted = (): Bus => {
  const may = (subject: string): boolean => covers("open.>", subject) || covers(`_INBOX.p${count + 1}.>`, subject);
  return startProcess({ mayPublish: may, maySubscribe: may }).host.actor();
};

const shared = {
  connectRestricted: async () => restricted(),
  cut: async () => processes.forEach(({ under }) => under.disconnect()),
  heal: async () => processes.forEach(({ under }) => under.reconnect()),
  closeAll: async () => {
    await Promise.all(processes.splice(0).map(({ host }) => new Promise<void>((resolve) => host.close(resolve))));
  },
};

/** Two ends of a link in memory: in order, some microtasks later. */
function linkPair(id: string): [LinkEnd, LinkEnd] {
  const ends = [
    { handlers: undefined as LinkHandlers | undefined },
    { handlers: undefined as LinkHandlers | undefined },
  ];
  let isOpen = true;
  const early: (() => void)[][] = [[], []];
  const end = (own: 0 | 1): LinkEnd => ({
    id,
    send(message: LinkMessage) {
      if (!isOpen) return false;
      const sent = message.kind === "message" ? { ...message, payload: new Uint8Array(message.payload) } : message;
      const arrive = (): void => ends[1 - own]!.handlers?.onMessage(sent);
      queueMicrotask(() => queueMicrotask(() => (ends[1 - own]!.handlers ? arrive() : early[1 - own]!.push(arrive))));
      return true;
    },
    open(handlers) {
      ends[own]!.handlers = handlers;
      for (const run of early[own]!.splice(0)) run();
    },
    close() {
      if (!isOpen) return;
      isOpen = false;
      queueMicrotask(() => ends.forEach(({ handlers }) => handlers?.onClosed()));
    },
  });
  return [end(0), end(1)];
}

busConformance("actors of processes of their own, without links", () => ({
  ...shared,
  connect: async () => startProcess().host.actor(),
}));

busConformance(
  "actors of processes that are linked with one another",
  () => ({
    ...shared,
    connect: async () => {
      const started = startProcess();
      for (const other of processes)
        if (other !== started) {
          const [here, there] = linkPair(`${count}-${other.under.name}`);
          started.host.link(here);
          other.host.link(there);
        }
      return started.host.actor();
    },
  }),
  { isLocal: true },
);

let together: Process | undefined;
busConformance(
  "actors of one process",
  () => ({
    ...shared,
    connect: async () => {
      if (together === undefined || !processes.includes(together)) together = startProcess();
      return together.host.actor();
    },
  }),
  { isLocal: true },
);
