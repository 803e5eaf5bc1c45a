/** Texts and errors of commands, light enough to be loaded by each of them. */
export { CommandError, EXIT, explain, report, usageError } from "./failure.ts";
export { fileProblem } from "./file-problem.ts";
export { makeFolder, makeNamedFolder } from "./make-folder.ts";
export { didYouMean, nearest } from "./nearest.ts";
export { note, print } from "./print.ts";
export { secondsOption } from "./seconds-option.ts";
export { renderTable } from "./table.ts";
