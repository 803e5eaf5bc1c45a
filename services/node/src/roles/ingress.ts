import { type ServedPipelines, createIngress } from "@tutti/ingress";
import { loadPipelines } from "@tutti/host/pipelines";
import { WARMUP_PER_SECOND, RESPOND_FLOOR, type StartRole, serveDataPlane } from "@tutti/host/role";
import { WorkerDecoder } from "@tutti/node/decode";

/** Loads the pipelines and their functions before the ingress serves: an error in them fails the start. */
const servedPipelines = async (folder: string | undefined): Promise<{ readonly pipelines?: ServedPipelines }> =>
  folder === undefined ? {} : { pipelines: await loadPipelines(folder) };

export const start: StartRole = async (context, ready) => {
  const { ports, config, options } = context;
  const pipelines = await servedPipelines(options.pipelines);
  return createIngress(
    { ...ports, ...pipelines, decoder: new WorkerDecoder(() => ports.clock.now()), serveData: serveDataPlane(context) },
    {
      ...config,
      replyScope: options.replyScope,
      respondFloor: RESPOND_FLOOR,
      warmup: { perSecond: WARMUP_PER_SECOND, time: options.warmup },
    },
    ready,
  );
};
