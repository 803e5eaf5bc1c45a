/**
 * Checks the shape of packed messages before a handler sees them. Since msgpack carries any value, a wrong one that is
 * accepted once would stay in a registry, a heap or an average (T8). Fixed messages are checked as they are read.
 */
import {
  BATCH_SIZE_MAX,
  type ExecutorInventory,
  type ExecutorLost,
  type GpuJoined,
  type GpuState,
  type Heartbeat,
  IDLE_HEARTBEAT_MAX,
  type IngressIntroduced,
  MODELS_MAX,
  type ModelOffered,
  type ModelReported,
  type ProfileMeasured,
  type ProfileWanted,
  type LeadExpected,
  type RankerAnnounced,
  type ScalingAdvised,
  isName,
  isRole,
} from "@tutti/protocol";
import { ACTOR_KEY_MAX, BUCKETS_MAX, GPUS_MAX } from "@tutti/units";
import { wellFormedSamples } from "./well-formed-samples.ts";

type Unknown<T> = { readonly [K in keyof T]?: unknown };

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isKey = (value: unknown): boolean => isCount(value) && value > 0 && value < ACTOR_KEY_MAX;
const isGpu = (value: unknown): boolean => isCount(value) && value < GPUS_MAX;
const isBucket = (value: unknown): boolean => isCount(value) && value < BUCKETS_MAX;
const isBatchSize = (value: unknown): boolean => isCount(value) && value > 0 && value <= BATCH_SIZE_MAX;
const isText = (value: unknown): boolean => typeof value === "string";
const isSubCluster = (value: unknown): boolean => typeof value === "string" && isName(value);
const isFinite = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value);
const isThread = (value: unknown): boolean => isCount(value) && value < 2 ** 32;
/** NEVER and ALWAYS are instants too. */
const isInstant = (value: unknown): boolean => typeof value === "number" && Math.floor(value) === value;
const isMicros = (value: unknown): boolean => isInstant(value) && (value as number) >= 0;

function isList<T>(value: unknown, isItem: (item: Unknown<T>) => boolean): boolean {
  return Array.isArray(value) && value.every((item: unknown) => isMap(item) && isItem(item as Unknown<T>));
}
const isMap = (value: unknown): boolean => typeof value === "object" && value !== null;
const isListOf = (value: unknown, isItem: (item: unknown) => boolean): boolean =>
  Array.isArray(value) && value.every(isItem);
const isAbsentOr = (value: unknown, isGood: (value: unknown) => boolean): boolean =>
  value === undefined || isGood(value);

type Listed<K extends keyof Heartbeat> = NonNullable<Heartbeat[K]> extends readonly (infer Item)[] ? Item : never;

const isGpuState = (state: Unknown<GpuState>): boolean =>
  isGpu(state.gpu) &&
  isInstant(state.freeAt) &&
  isCount(state.epoch) &&
  isCount(state.grantSeq) &&
  isSubCluster(state.subCluster) &&
  typeof state.serving === "boolean" &&
  isText(state.type);
const isLastArrival = (last: Unknown<Listed<"arrivals">>): boolean =>
  isThread(last.thread) && isCount(last.term) && isCount(last.arrivalSeq);
const isOffer = (offer: Unknown<Listed<"offers">>): boolean =>
  isThread(offer.thread) &&
  isCount(offer.batchSize) &&
  isCount(offer.term) &&
  isCount(offer.offerSeq) &&
  isInstant(offer.execAt) &&
  isInstant(offer.latest) &&
  isMicros(offer.delay);
const isLink = ({ process, path, publicKey }: Unknown<NonNullable<Heartbeat["link"]>>): boolean =>
  isText(process) && isText(path) && isText(publicKey);
const isModels = (list: unknown): boolean => isListOf(list, isCount) && (list as unknown[]).length <= MODELS_MAX;
const isAddress = (address: Unknown<NonNullable<Heartbeat["address"]>>): boolean =>
  isText(address.host) && isCount(address.port) && address.port < 65_536 && typeof address.tls === "boolean";

export const wellFormed = {
  ...wellFormedSamples,
  heartbeat: (beat: Unknown<Heartbeat>): boolean =>
    isKey(beat.key) &&
    typeof beat.role === "string" &&
    isRole(beat.role) &&
    isText(beat.host) &&
    isInstant(beat.sentAt) &&
    typeof beat.leaving === "boolean" &&
    isAbsentOr(beat.epoch, isCount) &&
    isAbsentOr(beat.subCluster, isSubCluster) &&
    isAbsentOr(beat.yields, (yields) => typeof yields === "boolean") &&
    isAbsentOr(beat.grants, isCount) &&
    isAbsentOr(beat.every, (every) => isCount(every) && every <= IDLE_HEARTBEAT_MAX) &&
    isAbsentOr(beat.link, (link) => isMap(link) && isLink(link as object)) &&
    isAbsentOr(beat.address, (address) => isMap(address) && isAddress(address as object)) &&
    isAbsentOr(beat.arrivals, (list) => isList<Listed<"arrivals">>(list, isLastArrival)) &&
    isAbsentOr(beat.takes, (takes) => typeof takes === "boolean") &&
    isAbsentOr(beat.load, isCount) &&
    isAbsentOr(beat.stalled, isModels) &&
    isAbsentOr(beat.offers, (list) => isList<Listed<"offers">>(list, isOffer)) &&
    isAbsentOr(beat.gpus, (list) => isList<GpuState>(list, isGpuState)),
  rankerAnnounced: ({ key, epoch, subCluster }: Unknown<RankerAnnounced>): boolean =>
    isKey(key) && isCount(epoch) && isSubCluster(subCluster),
  leadExpected: ({ key, epoch, subCluster }: Unknown<LeadExpected>): boolean =>
    isKey(key) && isCount(epoch) && isSubCluster(subCluster),
  gpuJoined: ({ executor, epoch, gpus }: Unknown<GpuJoined>): boolean =>
    isKey(executor) && isCount(epoch) && isList<GpuState>(gpus, isGpuState),
  executorLost: ({ executor }: Unknown<ExecutorLost>): boolean => isKey(executor),
  ingressIntroduced: ({ ingress, secret, respond }: Unknown<IngressIntroduced>): boolean =>
    isKey(ingress) && secret instanceof Uint8Array && secret.byteLength === 32 && isCount(respond),
  modelOffered: ({ model, number, term, delays }: Unknown<ModelOffered>): boolean =>
    isText(model) &&
    isCount(number) &&
    isCount(term) &&
    isList<ModelOffered["delays"][number]>(delays, ({ ctrl, perItemNs }) => isCount(ctrl) && isCount(perItemNs)),
  modelReported: (report: Unknown<ModelReported>): boolean =>
    isKey(report.executor) &&
    isListOf(report.gpus, isGpu) &&
    isText(report.type) &&
    isText(report.model) &&
    isCount(report.number) &&
    isText(report.version) &&
    (report.state === "loaded" || report.state === "failed" || report.state === "unloaded") &&
    isText(report.reason),
  executorInventory: (inventory: Unknown<ExecutorInventory>): boolean =>
    isKey(inventory.executor) &&
    isListOf(inventory.gpus, isGpu) &&
    isText(inventory.type) &&
    isSubCluster(inventory.subCluster) &&
    isCount(inventory.memoryBytes) &&
    isCount(inventory.memoryBytesMax) &&
    isList<ExecutorInventory["models"][number]>(
      inventory.models,
      ({ number, version, memoryBytes }) => isCount(number) && isText(version) && isCount(memoryBytes),
    ) &&
    (inventory.models as unknown[]).length <= MODELS_MAX,
  scalingAdvised: ({ at, advice, gpus, badRate, idleShare }: Unknown<ScalingAdvised>): boolean =>
    isInstant(at) && isFinite(advice) && isCount(gpus) && isFinite(badRate) && isFinite(idleShare),
  profileWanted: (wanted: Unknown<ProfileWanted>): boolean =>
    isGpu(wanted.gpu) &&
    isText(wanted.model) &&
    isCount(wanted.number) &&
    isBucket(wanted.bucket) &&
    isListOf(wanted.batchSizes, isBatchSize) &&
    isCount(wanted.runs) &&
    isCount(wanted.budget),
  profileMeasured: (measured: Unknown<ProfileMeasured>): boolean =>
    isKey(measured.executor) &&
    isGpu(measured.gpu) &&
    isText(measured.type) &&
    isText(measured.model) &&
    isCount(measured.number) &&
    isBucket(measured.bucket) &&
    isText(measured.failure) &&
    isList<ProfileMeasured["samples"][number]>(
      measured.samples,
      ({ batchSize, runs }) => isBatchSize(batchSize) && isListOf(runs, isCount),
    ),
};
