import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fileProblem } from "./file-problem.ts";

test("what keeps a file from being read is said in words", async () => {
  const { dirname: folder, filename: file } = import.meta;
  const why = (reading: Promise<unknown>): Promise<unknown> => reading.catch(fileProblem);
  expect(await why(readFile(join(folder, "absent")))).toBe("there is no such file or folder");
  expect(await why(readFile(folder))).toBe("it is a folder, not a file");
  expect(await why(readdir(file))).toBe("it is a file, not a folder");
  expect(fileProblem(Object.assign(new Error("EIO: i/o error"), { code: "EIO" }))).toBe("EIO: i/o error");
});
