import { dirname } from "node:path";

/** Folder of `ocr.yaml` and of the functions that it names. */
export const OCR_PIPELINE_FOLDER = dirname(import.meta.dirname);
