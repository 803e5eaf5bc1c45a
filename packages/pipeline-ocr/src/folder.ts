import { dirname } from "node:path";

/** Where `ocr.yaml` lies, and below it the functions that it names. */
export const OCR_PIPELINE_FOLDER = dirname(import.meta.dirname);
