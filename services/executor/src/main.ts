import { createExecutor } from "@tutti/actors";
import { CommandError, type RoleContext, createEmulatedEngine, openDataPlane, runRole } from "@tutti/cli/role";
import type { Engine } from "@tutti/engine";
import { startOnnxEngine } from "@tutti/engine-onnx";

await runRole("executor", async (context, ready) => {
  const { ports, config, options, fail } = context;
  const engines = await Promise.all(options.gpus.map(async (gpu) => ({ gpu, engine: await startEngine(context) })));
  context.told["gpus"] = options.gpus;
  context.told["engine"] = engines[0]?.engine.type;
  return createExecutor({ ...ports, data: openDataPlane(context), engines, onFault: fail }, config, ready);
});

function startEngine({ clock, options }: RoleContext): Engine | Promise<Engine> {
  if (options.engine === "emulated") return createEmulatedEngine(clock, options.jitter);
  // Two WebGPU sessions in threads of one process crash it, and a native abort takes its neighbours along.
  if (options.gpus.length > 1)
    throw new CommandError("one process drives one real accelerator: start one for each of --gpus");
  return startOnnxEngine({ provider: options.provider });
}
