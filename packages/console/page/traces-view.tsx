/** Traces of requests, drawn from their spans: a list of the latest traces, and the waterfall of one. */
import { colourOf } from "@tutti/sim-report/palette";
import { useEffect, useState } from "preact/hooks";
import type { FeedTrace, TraceAnswer, TraceSpan } from "../src/feed.ts";
import { shortCode } from "./explain.ts";
import { get } from "./feed-client.ts";
import { clockTime, milliseconds } from "./format.ts";
import type { LiveStore } from "./live-store.ts";
import { Empty, Swatch, Table } from "./parts.tsx";
import { useHash } from "./theme.ts";
import {
  type TraceRow,
  eventText,
  isTrouble,
  notesOf,
  serviceName,
  shownNote,
  traceRows,
  writers,
} from "./trace-rows.ts";

export function TracesView({ store }: { store: LiveStore }) {
  const [list, setList] = useState<readonly FeedTrace[]>();
  const [trace, setTrace] = useState<TraceAnswer>();
  const [problem, setProblem] = useState("");
  const isThere = store.hello?.traces === true;
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    setProblem("");
    try {
      await work();
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  const look = (): Promise<void> => attempt(async () => setList(await get<FeedTrace[]>("/console/traces")));
  const show = (id: string): Promise<void> =>
    attempt(async () => setTrace(await get<TraceAnswer>(`/console/traces/${encodeURIComponent(id.trim())}`)));
  const [, asked] = useHash().split("/");
  useEffect(() => {
    if (isThere) void look();
  }, [isThere]);
  useEffect(() => {
    if (isThere && asked !== undefined) void show(asked);
  }, [isThere, asked]);
  if (store.hello !== undefined && !isThere)
    return (
      <Empty>
        No Jaeger keeps traces that this gateway knows of: <code>npm start -- --jaeger</code> runs one beside the
        system, and <code>--trace-query</code> names one to a gateway.
      </Empty>
    );
  return (
    <>
      <section aria-labelledby="traces">
        <div class="bar">
          <h2 id="traces">The last traces</h2>
          <TraceSearch onShow={(id) => void show(id)} />
          <button type="button" onClick={() => void look()}>
            Look again
          </button>
        </div>
        <div role="status">{problem !== "" && <p class="failed">{problem}</p>}</div>
        {list === undefined ? (
          <Empty>Asking …</Empty>
        ) : (
          <TraceList list={list} shown={trace?.id} onShow={(id) => void show(id)} />
        )}
      </section>
      {trace !== undefined && <Waterfall key={trace.id} trace={trace} onShow={(id) => void show(id)} />}
    </>
  );
}

function TraceSearch({ onShow }: { onShow: (id: string) => void }) {
  const [id, setId] = useState("");
  const submit = (event: Event): void => {
    event.preventDefault();
    onShow(id);
  };
  return (
    <form onSubmit={submit}>
      <label>
        Trace{" "}
        <input
          class="trace-id"
          value={id}
          spellcheck={false}
          autocomplete="off"
          required
          onInput={(event) => setId(event.currentTarget.value)}
        />
      </label>
    </form>
  );
}

function TraceList({
  list,
  shown,
  onShow,
}: {
  list: readonly FeedTrace[];
  shown: string | undefined;
  onShow: (id: string) => void;
}) {
  if (list.length === 0) return <Empty>No request was traced in the last hour.</Empty>;
  return (
    <div class="short">
      <Table
        name="Traces"
        head={["Began", "What", ["Id", "wide"], ["Took", "number"], "Outcome", ["Spans", "number wide"]]}
      >
        {list.map(({ id, at, name, ms, outcome, spans }) => (
          <tr key={id} class={id === shown ? "chosen" : ""}>
            <td class="nowrap">{clockTime(at)}</td>
            <th scope="row">
              <button type="button" class="plain" aria-pressed={id === shown} onClick={() => onShow(id)}>
                {name}
              </button>
            </th>
            <td class="wide">
              <code class="id">{id}</code>
            </td>
            <td class="number">{milliseconds(ms)}</td>
            <td>
              <span class={`tag ${outcome === "ok" || outcome === "" ? "good" : "warn"}`}>
                {outcome === "" ? "answered" : shortCode(outcome)}
              </span>
            </td>
            <td class="number wide">{spans}</td>
          </tr>
        ))}
      </Table>
    </div>
  );
}

function Waterfall({ trace, onShow }: { trace: TraceAnswer; onShow: (id: string) => void }) {
  const [open, setOpen] = useState<string>();
  const services = [...new Set(trace.spans.map(({ service }) => service))];
  const rows = traceRows(trace);
  const by = writers(rows);
  const colour = (service: string): string => colourOf(services.indexOf(service), services.length);
  return (
    <section aria-labelledby="waterfall">
      <h2 id="waterfall">
        {trace.spans[0]?.name} at {clockTime(trace.at)}, {milliseconds(trace.us / 1_000)} <code>{trace.id}</code>
      </h2>
      <ul class="legend" aria-label="Who wrote the spans">
        {services.map((service) => (
          <li key={service}>
            <Swatch colour={colour(service)} />
            {serviceName(service)}
          </li>
        ))}
      </ul>
      <ol class="waterfall">
        {rows.map((row, i) => (
          <SpanRow
            key={row.span.id}
            row={row}
            by={by[i]}
            colour={colour(row.span.service)}
            isOpen={open === row.span.id}
            onToggle={() => setOpen(open === row.span.id ? undefined : row.span.id)}
            onShow={onShow}
          />
        ))}
      </ol>
    </section>
  );
}

interface SpanRowProps {
  readonly row: TraceRow;
  /** Service that wrote the span, where its parent has another one. */
  readonly by: string | undefined;
  readonly colour: string;
  readonly isOpen: boolean;
  readonly onToggle: () => void;
  readonly onShow: (id: string) => void;
}

function SpanRow({ row: { span, depth, from, length }, by, colour, isOpen, onToggle, onShow }: SpanRowProps) {
  const bar = { left: `${100 * from}%`, width: `max(2px, ${100 * length}%)`, background: colour };
  return (
    <li>
      <button type="button" class="plain span" aria-expanded={isOpen} onClick={onToggle}>
        <span class="what" style={{ paddingLeft: `${14 * depth}px` }}>
          {span.name}
          {by !== undefined && !span.name.startsWith(by) && <span class="quiet"> {by}</span>}
        </span>
        <span class="lane" aria-hidden="true">
          <span class="stretch" style={bar} />
          {span.events.map(({ at }, i) => (
            <span
              class="event"
              key={i}
              style={{ left: `${(100 * (from * span.us + (at - span.at) * length)) / Math.max(1, span.us)}%` }}
            />
          ))}
        </span>
        <span class="took">{milliseconds(span.us / 1_000)}</span>
      </button>
      {span.events.map(({ at, notes }, i) => (
        <p class={`span-event ${isTrouble(notes) ? "trouble" : ""}`} key={i}>
          {milliseconds((at - span.at) / 1_000)} in: {eventText(notes)}
        </p>
      ))}
      {isOpen && <Notes span={span} onShow={onShow} />}
    </li>
  );
}

function Notes({ span, onShow }: { span: TraceSpan; onShow: (id: string) => void }) {
  return (
    <div class="notes">
      <dl>
        <div>
          <dt>written by</dt>
          <dd>{serviceName(span.service)}</dd>
        </div>
        <div>
          <dt>began</dt>
          <dd>{milliseconds(span.at / 1_000)} in</dd>
        </div>
        {notesOf(span.notes).map((note) => {
          const [label, text] = shownNote(note);
          return (
            <div key={note[0]} title={note[0]}>
              <dt>{label}</dt>
              <dd>{text}</dd>
            </div>
          );
        })}
      </dl>
      {span.links.slice(0, 8).map((id) => (
        <button type="button" key={id} onClick={() => onShow(id)}>
          To the trace that it is linked with, {id}
        </button>
      ))}
    </div>
  );
}
