import type { Fields } from "@tutti/ports/telemetry";

export const CENSORED = "[redacted]";

/** Fields whose text is redacted. Numbers are shown: `tokens: 3` is a count. */
const SECRET_FIELD = /token|secret|passw|credential|creds|authorization|cookie|jwt|nkey|api-?key|signature/i;
/** User and password of a URL; NATS seeds, JWTs and API keys anywhere in a text. */
const SECRET_TEXT =
  /(?<=:\/\/)[^\s/@]+(?=@)|\bS[A-Z]{1,2}[A-Z2-7]{54,}\b|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+|\btutti_[0-9a-f]{12}_[\w-]{43}/g;
const TEXT_MAX = 4_096;

/** Removes secrets, and truncates the text to the length of a log line. */
export function redactText(text: string): string {
  const shown = text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
  return shown.replace(SECRET_TEXT, CENSORED);
}

/** Copies the fields without secrets and without undefined values. @param show - applied to their texts afterwards */
export function redactFields(
  fields: Fields,
  show: (text: string) => string = (text) => text,
): Record<string, string | number | boolean> {
  const shown: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    shown[name] = typeof value !== "string" ? value : SECRET_FIELD.test(name) ? CENSORED : show(redactText(value));
  }
  return shown;
}
