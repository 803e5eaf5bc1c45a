/** Writes the build context of infra/image/Dockerfile.cuda: onnxruntime's CUDA provider, and CUDA's libraries. */
import { execFileSync } from "node:child_process";
import { copyFileSync, cpSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../..");
const PROVIDERS = "node_modules/onnxruntime-node/bin/napi-v6/linux/x64";

/** @param folder - is created */
export function writeCudaContext(folder: string): void {
  const script = join(ROOT, "infra/cuda/fetch-provider.sh");
  // Without the machine's own libraries: the image has no others than these.
  const printed = execFileSync(script, { encoding: "utf8", env: { ...process.env, LD_LIBRARY_PATH: "" } });
  const libraries = /^LD_LIBRARY_PATH=(.*)$/m.exec(printed)?.[1]?.split(":") ?? [];
  const [app, cuda] = [join(folder, "cuda/app", PROVIDERS), join(folder, "cuda/usr/local/cuda/lib")];
  for (const path of [app, cuda]) mkdirSync(path, { recursive: true });
  for (const name of readdirSync(join(ROOT, PROVIDERS)).filter((file) => file.startsWith("libonnxruntime_providers_")))
    copyFileSync(join(ROOT, PROVIDERS, name), join(app, name));
  for (const path of libraries.filter((library) => library !== ""))
    for (const name of readdirSync(path).filter((file) => /\.so(\.|$)/.test(file)))
      cpSync(join(path, name), join(cuda, name), { dereference: true });
  copyFileSync(join(import.meta.dirname, "Dockerfile.cuda"), join(folder, "Dockerfile"));
}
