/** Small components that several views share. */
import type { ComponentChildren } from "preact";

/** A table that scrolls by itself where it is too wide; a keyboard can reach it then. */
export function Table({
  name,
  head,
  children,
}: {
  name: string;
  head: readonly (string | readonly [text: string, kind: string])[];
  children: ComponentChildren;
}) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={`Table: ${name}`}>
      <table>
        <thead>
          <tr>
            {head.map((cell) => {
              const [text, kind] = typeof cell === "string" ? [cell, ""] : cell;
              return (
                <th scope="col" class={kind} key={text}>
                  {text}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

/** Colour of a model, beside its name: hidden from screen readers, as it adds nothing. */
export function Swatch({ colour }: { colour: string }) {
  return <span class="swatch" aria-hidden="true" style={{ background: colour }} />;
}

/** A share as a bar with its number. */
export function Meter({ share, text, state }: { share: number | null; text: string; state: "good" | "bad" | "plain" }) {
  const width = `${Math.round(100 * Math.max(0, Math.min(1, share ?? 0)))}%`;
  return (
    <span class={`meter ${state}`}>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width }} />
      </span>
      <span class="number">{text}</span>
    </span>
  );
}

export function Legend({ models }: { models: readonly { readonly name: string; readonly colour: string }[] }) {
  return (
    <ul class="legend" aria-label="Colours of the models">
      {models.map(({ name, colour }) => (
        <li key={name}>
          <Swatch colour={colour} />
          {name}
        </li>
      ))}
    </ul>
  );
}

export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export interface ChoiceProps<Value extends string | number> {
  readonly name: string;
  readonly value: Value;
  readonly choices: readonly Value[];
  readonly text: (value: Value) => string;
  readonly onChoose: (value: Value) => void;
}

export function Choice<Value extends string | number>({ name, value, choices, text, onChoose }: ChoiceProps<Value>) {
  return (
    <label>
      {name}{" "}
      <select
        value={String(value)}
        onChange={({ currentTarget }) => {
          const chosen = choices.find((one) => String(one) === currentTarget.value);
          if (chosen !== undefined) onChoose(chosen);
        }}
      >
        {choices.map((one) => (
          <option value={String(one)} key={one}>
            {text(one)}
          </option>
        ))}
      </select>
    </label>
  );
}

export interface SliderProps {
  readonly name: string;
  readonly value: number;
  readonly most: number;
  readonly step: number;
  readonly onMove: (value: number) => void;
}

export function Slider({ name, value, most, step, onMove }: SliderProps) {
  return (
    <label class="grow">
      {name}{" "}
      <input
        type="range"
        min={0}
        max={most}
        step={step}
        value={value}
        onInput={({ currentTarget }) => onMove(Number(currentTarget.value))}
      />
    </label>
  );
}
