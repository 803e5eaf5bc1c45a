/** Tries one provider as an executor would. On an error it prints the reason, and ends with 1. */
import { isProvider, startOnnxEngine } from "@tutti/engine-onnx";

const [, , provider = ""] = process.argv;
if (!isProvider(provider)) throw new Error(`${provider} is no provider`);
try {
  const engine = await startOnnxEngine({ provider });
  engine.stop(() => process.exit(0));
} catch (error) {
  process.stdout.write(`${(error as Error).message}\n`, () => process.exit(1));
}
