import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

/** Folder of `ocr.yaml` and of the functions that it names. */
export const OCR_PIPELINE_FOLDER = dirname(fileURLToPath(new URL("../ocr.yaml", import.meta.url)));
