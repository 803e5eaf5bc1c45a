/** Asks for confirmation and the token before a process is restarted, and shows the progress. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, rememberKey, rememberedKey } from "./feed-client.ts";
import type { LiveStore } from "./live-store.ts";
import { type ProcessRow, restartMeans } from "./process-rows.ts";
import { RestartRight } from "./restart-right.tsx";

interface RestartDialogProps {
  readonly process: ProcessRow;
  readonly store: LiveStore;
  readonly onClose: () => void;
}

export function RestartDialog({ process, store, onClose }: RestartDialogProps) {
  const { name, restartBy } = process;
  const dialog = useRef<HTMLDialogElement>(null);
  const [token, setToken] = useState(rememberedKey());
  const [phase, setPhase] = useState<"asking" | "underway" | "lost" | "done" | "failed">("asking");
  const [problem, setProblem] = useState("");
  const begun = useRef(Infinity);
  useEffect(() => dialog.current?.showModal(), []);
  const access = store.hello?.restart ?? "closed";
  const isOpen = access !== "closed";
  const actor = restartBy?.actor ?? "";
  const isBack = phase === "lost" && store.connected && !hasActor(store, actor);
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
      // The gateway that was asked ends with its process, and its answer with it.
      if (error instanceof TypeError && process.actors.some(({ role }) => role === "gateway")) return setPhase("lost");
      setProblem(error instanceof Error ? error.message : String(error));
      setPhase("failed");
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="restart-title" onClose={onClose}>
      <form onSubmit={(event) => void restart(event)}>
        <h2 id="restart-title">Restart {name}?</h2>
        <p>{restartMeans(process)} The gateway's log keeps who asked.</p>
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
          {phase === "lost" && !isBack && <p>The gateway of this page is being restarted with it …</p>}
          {(phase === "done" || isBack) && <p class="done">{name} was restarted.</p>}
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

const hasActor = ({ state }: LiveStore, id: string): boolean => (state?.actors ?? []).some(({ actor }) => actor === id);

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
