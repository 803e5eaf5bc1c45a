import type { Instant } from "@tutti/units";
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Grant } from "./messages.ts";
import { AcceptedGrants } from "./accepted-grants.ts";

const VALID = 12;
const sent = fc.record({
  wait: fc.nat(4),
  gpu: fc.nat(4),
  isNewEpoch: fc.boolean(),
  /** Amount by which the grant ends earlier, because d_ctrl has fallen meanwhile. */
  shorter: fc.nat(VALID),
  /** Delay of each of its deliveries. */
  delays: fc.array(fc.nat(20), { minLength: 1, maxLength: 3 }),
});
type Sending = typeof sent extends fc.Arbitrary<infer One> ? One : never;

/** Deliveries of grants that M3 lets through, each with the answer of a reference that remembers all grants. */
function* coming(sendings: readonly Sending[], validity: (one: Sending) => number) {
  let [now, epoch] = [0, 1];
  const seqs = [0, 0, 0, 0, 0];
  const comings = sendings.flatMap((one, i) => {
    now += one.wait;
    if (one.isNewEpoch && i % 8 === 0) [epoch] = [epoch + 1, seqs.fill(0)];
    const { gpu } = one;
    seqs[gpu]!++;
    const grant = { gpu, epoch, grantSeq: seqs[gpu], sentAt: now, validUntil: now + validity(one) } as Grant;
    return one.delays.map((delay) => ({ at: (grant.sentAt + delay) as Instant, grant }));
  });
  const last = new Map<number, Grant>();
  let newest = 0;
  for (const { at, grant } of comings.toSorted((a, b) => a.at - b.at)) {
    if (at > grant.validUntil || grant.epoch < newest) continue; // M3
    newest = grant.epoch;
    const before = last.get(grant.gpu);
    const isNewer = before?.epoch !== grant.epoch || grant.grantSeq > before.grantSeq;
    const isObeyed: boolean = yield { at, grant, isNewer };
    if (isObeyed) last.set(grant.gpu, grant);
  }
}

function obeyAll(sendings: readonly Sending[], validity: (one: Sending) => number, judge: (look: Look) => void): void {
  const accepted = new AcceptedGrants();
  const grants = coming(sendings, validity);
  for (let next = grants.next(); next.done !== true;) {
    const { at, grant, isNewer } = next.value;
    const isObeyed = accepted.obey(at, grant);
    judge({ isObeyed, isNewer });
    next = grants.next(isObeyed);
  }
}
interface Look {
  readonly isObeyed: boolean;
  readonly isNewer: boolean;
}

test("of the grants that are valid still, each is obeyed once and none that was overtaken, as by one who remembers all (OG1)", () => {
  fc.assert(
    fc.property(fc.array(sent, { maxLength: 80 }), (sendings) => {
      obeyAll(
        sendings,
        () => VALID,
        ({ isObeyed, isNewer }) => expect(isObeyed).toBe(isNewer),
      );
    }),
    { numRuns: 300 },
  );
});

test("a grant that was overtaken is not obeyed either where it is valid for longer than the newer one (OG3)", () => {
  fc.assert(
    fc.property(fc.array(sent, { maxLength: 80 }), (sendings) => {
      obeyAll(
        sendings,
        ({ shorter }) => VALID - shorter,
        ({ isObeyed, isNewer }) => {
          if (isObeyed) expect(isNewer).toBe(true);
        },
      );
    }),
    { numRuns: 300 },
  );
  const accepted = new AcceptedGrants();
  const grant = (grantSeq: number, sentAt: number, validUntil: number, epoch = 1, gpu = 0) =>
    ({ gpu, epoch, grantSeq, sentAt, validUntil }) as Grant;
  expect(accepted.obey(40 as Instant, grant(6, 10, 50))).toBe(true);
  expect(accepted.obey(70 as Instant, grant(5, 0, 100))).toBe(false); // the newer one is forgotten by now
  expect(accepted.obey(70 as Instant, grant(1, 11, 100, 1, 1))).toBe(true);
  expect(accepted.obey(70 as Instant, grant(1, 0, 100, 2))).toBe(true); // in another epoch, by another clock
});

test("grants that are valid for ever take no more memory than there are accelerators (OG2)", () => {
  const accepted = new AcceptedGrants();
  const grant = (gpu: number, grantSeq: number) =>
    ({ gpu, epoch: 1, grantSeq, sentAt: grantSeq, validUntil: Infinity }) as Grant;
  for (let grantSeq = 1; grantSeq <= 1_000; grantSeq++) {
    for (let gpu = 0; gpu < 3; gpu++) expect(accepted.obey(1 as Instant, grant(gpu, grantSeq))).toBe(true);
    expect(accepted.size).toBeLessThanOrEqual(12);
  }
  expect(accepted.obey(2 as Instant, grant(1, 999))).toBe(false);
});
