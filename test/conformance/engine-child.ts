/** The other end of engine-process.ts: one engine, driven over the process's message channel; it ends after `stop`. */
import { type Provider, startOnnxEngine } from "@tutti/engine-onnx";
import type { Engine } from "@tutti/ports/engine";
import type { ChildReply, ChildRequest } from "./engine-process.ts";

let engine: Engine | undefined;

process.on("message", (request: ChildRequest) => {
  const answer = (value: unknown): void => void process.send?.({ id: request.id, value } satisfies ChildReply);
  if (request.kind === "start") {
    startOnnxEngine({ provider: request.provider as Provider }).then(
      (started) => answer(void (engine = started)),
      (error: Error) => answer(error.message),
    );
    return;
  }
  if (engine === undefined) throw new Error(`'${request.kind}' before 'start'`);
  switch (request.kind) {
    case "load":
      return engine.load(request.model, answer);
    case "unload":
      return engine.unload(request.name, () => answer(undefined));
    case "run": {
      // Arrays of a received message are views of the whole message; the port wants buffers of their own.
      const own = request.batch.inputs.map((input) => ({ ...input, data: new Uint8Array(input.data) }));
      return engine.run({ ...request.batch, inputs: own }, answer);
    }
    case "stop":
      return engine.stop(() => {
        // Requests that were sent after `stop` are in the channel already, and the port promises that they are
        // answered.
        process.send?.({ id: request.id, value: undefined } satisfies ChildReply);
      });
  }
});
process.on("disconnect", () => process.exit(0));
