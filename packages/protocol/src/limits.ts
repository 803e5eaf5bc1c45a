import { assert } from "@tutti/units";

/**
 * Our NATS server's `max_payload`, set in infra/nats. The limit in force is always the one that the server announces.
 */
export const OUR_PAYLOAD_BYTES_MAX = 8_388_608;
/** One request's tensors: float32[3, 576, 576] fits; beyond, TOO_LARGE. */
export const REQUEST_BYTES_MAX = 4_194_304;
export const HEADER_BYTES_MAX = 65_536;
assert(REQUEST_BYTES_MAX + HEADER_BYTES_MAX < OUR_PAYLOAD_BYTES_MAX, "one request fits in one message");

/** Control frames stay well below any server's limit; a fuller one is sent early. */
export const FRAME_BYTES_MAX = 262_144;
export const NAME_LENGTH_MAX = 64;
/** Most characters of a request's id that are kept. */
export const REQUEST_ID_LENGTH_MAX = 128;
/** A reply subject that is longer can't be cancelled. */
export const REPLY_BYTES_MAX = 512;
export const TENSORS_MAX = 64;
/** Bytes of a tensor's name: models name theirs freely (`onnx::Conv_123`), so longer than our own names. */
export const TENSOR_NAME_BYTES_MAX = 256;
/** Characters of the id in a request's body, which its answer repeats. */
export const ID_LENGTH_MAX = 256;
export const RANK_MAX = 8;
/** Largest size of one axis of a tensor. */
export const AXIS_SIZE_MAX = 2 ** 31;
export const BATCH_SIZE_MAX = 1_024;
/** Longest SLO, µs. A deadline further away is a mistake, and would hold memory for as long. */
export const SLO_US_MAX = 600_000_000;
/** Largest size hint. A larger one is a mistake: it would make any deadline look infeasible. */
export const SIZE_HINT_MAX = 1_000_000_000;
/** Most steps of a request's costs (`Tutti-Costs`). */
export const COST_STEPS_MAX = 8;
/** Largest cost of a late answer. A larger one is a mistake: sums of costs would lose their digits. */
export const COST_MAX = 1_000_000_000;
/** Requests that one ingress holds at once; beyond, OVERLOADED. */
export const INGRESS_REQUESTS_MAX = 200_000;
/** Bytes of inputs that one ingress holds at once; beyond, OVERLOADED. */
export const INGRESS_BYTES_MAX = 2_147_483_648;
/** Requests of one application that one ingress holds at once: no application alone fills it. Beyond, OVERLOADED. */
export const APP_REQUESTS_MAX = 100_000;
/** Bytes of inputs of one application that one ingress holds at once; beyond, OVERLOADED. */
export const APP_BYTES_MAX = 1_073_741_824;
/** Requests that one ModelThread queues; beyond, OVERLOADED. */
export const THREAD_REQUESTS_MAX = 65_536;
/** Most dispatched batches of one ModelThread that are not reported done. */
export const THREAD_BATCHES_MAX = 4_096;
export const MODELS_MAX = 4_096;

const NAME = /^[A-Za-z0-9][A-Za-z0-9_-]*$/;
/** Names of models and applications are subject tokens, so they are checked before they become one. */
export const isName = (text: string): boolean => text.length <= NAME_LENGTH_MAX && NAME.test(text);
/** The rule of `isName`, for error texts. */
export const NAME_RULE = `1 to ${NAME_LENGTH_MAX} letters, digits, "-" and "_", a letter or digit first`;
