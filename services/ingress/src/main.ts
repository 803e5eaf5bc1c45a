import { createIngress } from "@tutti/actors";
import { REHEARSALS_PER_SECOND, RESPOND_FLOOR, runRole, serveDataPlane } from "@tutti/cli/role";
import { WorkerDecoder } from "@tutti/decode-worker";

await runRole("ingress", (context, ready) => {
  const { ports, config, options } = context;
  return createIngress(
    { ...ports, decoder: new WorkerDecoder(), serveData: serveDataPlane(context) },
    {
      ...config,
      replyScope: options.replyScope,
      respondFloor: RESPOND_FLOOR,
      rehearsal: { perSecond: REHEARSALS_PER_SECOND, time: options.rehearsal },
    },
    ready,
  );
});
