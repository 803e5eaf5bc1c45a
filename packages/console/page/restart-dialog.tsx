/** Asks for confirmation and the token before a process is restarted, and shows the progress. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, rememberKey, rememberedKey } from "./feed-client.ts";
import type { LiveStore } from "./live-store.ts";
import type { ProcessRow } from "./process-rows.ts";
import { RestartRight } from "./restart-right.tsx";

const MEANS: Readonly<Record<string, string>> = {
  executor: "It ends the batches that it has; its accelerators serve nothing until it is back.",
  ranker: "A spare takes the lead in milliseconds.",
  batcher: "Other batchers take its models; requests that wait are told again.",
  ingress: "It answers what it has; others take what comes. Where it is the only one, a new one is started first.",
  gateway: "This page loses its connection for a moment: it runs here.",
};

interface RestartDialogProps {
  readonly process: ProcessRow;
  readonly store: LiveStore;
  readonly onClose: () => void;
}

export function RestartDialog({ process: { name, actors, restartBy }, store, onClose }: RestartDialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [token, setToken] = useState(rememberedKey());
  const [phase, setPhase] = useState<"asking" | "underway" | "done" | "failed">("asking");
  const [problem, setProblem] = useState("");
  const begun = useRef(Infinity);
  useEffect(() => dialog.current?.showModal(), []);
  const access = store.hello?.restart ?? "closed";
  const isOpen = access !== "closed";
  const actor = restartBy?.actor ?? "";
  const means = actors.flatMap(({ role }) => MEANS[role] ?? []);
  const steps = store.operations.filter(({ at, what }) => what === `restart ${actor}` && at >= begun.current);

  const restart = async (event: Event): Promise<void> => {
    event.preventDefault();
    rememberKey(token);
    begun.current = (store.state?.at ?? Date.now()) - 2_000;
    setPhase("underway");
    try {
      await ask("/console/restart", { actor }, token);
      setPhase("done");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setPhase("failed");
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="restart-title" onClose={onClose}>
      <form onSubmit={(event) => void restart(event)}>
        <h2 id="restart-title">Restart {name}?</h2>
        <p>
          No request is lost by it.{" "}
          {actors.length > 1 && `It is ${actors.map(({ role }) => role).join(", ")} at once. `}
          {means.length === 0 ? "Serving goes on meanwhile." : means.join(" ")} The gateway's log keeps who asked.
        </p>
        <p class="quiet">
          <RestartRight access={access} />
        </p>
        {phase === "asking" && isOpen && <TokenField token={token} onInput={setToken} />}
        <div role="status">
          {phase !== "asking" && (
            <ol class="log">
              {steps.map(({ text }, i) => (
                <li key={i}>{text}</li>
              ))}
            </ol>
          )}
          {phase === "underway" && <p>Under way …</p>}
          {phase === "done" && <p class="done">{name} was restarted.</p>}
          {phase === "failed" && <p class="failed">{problem}</p>}
        </div>
        <div class="bar end">
          <button type="button" onClick={() => dialog.current?.close()}>
            {phase === "asking" && isOpen ? "Leave it" : "Close"}
          </button>
          {phase === "asking" && isOpen && (
            <button type="submit" class="danger">
              Restart it
            </button>
          )}
        </div>
      </form>
    </dialog>
  );
}

function TokenField({ token, onInput }: { token: string; onInput: (token: string) => void }) {
  return (
    <label>
      Admin token
      <input
        type="password"
        autocomplete="off"
        spellcheck={false}
        required
        value={token}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </label>
  );
}
