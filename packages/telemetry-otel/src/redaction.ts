import type { Fields } from "@tutti/ports/telemetry";

export const CENSORED = "[redacted]";

/** Fields whose text is never shown. Numbers are: `tokens: 3` is a count. */
const SECRET_FIELD = /token|secret|passw|credential|creds|authorization|cookie|jwt|nkey|api-?key|signature/i;
/** User and password of a URL; seeds of NATS, JWTs and API keys, wherever they turn up. */
const SECRET_TEXT =
  /(?<=:\/\/)[^\s/@]+(?=@)|\bS[A-Z]{1,2}[A-Z2-7]{54,}\b|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+|\btutti_[0-9a-f]{12}_[\w-]{43}/g;
const TEXT_MAX = 4_096;

/** Without secrets, and no longer than a log line should be. */
export function redactText(text: string): string {
  const shown = text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
  return shown.replace(SECRET_TEXT, CENSORED);
}

/** A copy without secrets and without what is undefined. */
export function redactFields(fields: Fields): Record<string, string | number | boolean> {
  const shown: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    shown[name] = typeof value !== "string" ? value : SECRET_FIELD.test(name) ? CENSORED : redactText(value);
  }
  return shown;
}
