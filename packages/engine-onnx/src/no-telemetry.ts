/** Variable by which onnxruntime's library sends nothing. Someone who wants it to send sets 0. */
process.env["ORT_DISABLE_TELEMETRY"] ??= "1";
