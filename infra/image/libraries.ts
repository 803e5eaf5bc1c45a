import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The shared libraries that a binary is linked with, the loader among them: absolute paths. None for a static one. */
export async function librariesOf(binary: string): Promise<string[]> {
  try {
    const { stdout } = await promisify(execFile)("ldd", [binary]);
    return [...stdout.matchAll(/(\/\S+) \(0x/g)].map((match) => match[1]!);
  } catch {
    return []; // "not a dynamic executable"
  }
}
