/** Colours of the style sheet for drawing on canvases, and hooks that trigger a redraw. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Ink {
  readonly text: string;
  readonly quiet: string;
  readonly line: string;
  readonly bad: string;
}

export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return { text: read("--text"), quiet: read("--quiet"), line: read("--line"), bad: read("--bad") };
}

const DARK = "(prefers-color-scheme: dark)";

export function useTheme(): "dark" | "light" {
  const [isDark, setDark] = useState(() => matchMedia(DARK).matches);
  useEffect(() => {
    const query = matchMedia(DARK);
    const onChange = (): void => setDark(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  return isDark ? "dark" : "light";
}

/** Width of an element, in whole pixels. */
export function useSize<T extends HTMLElement>(): [RefObject<T | null>, number] {
  const element = useRef<T>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (element.current === null) return;
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.floor(entry?.contentRect.width ?? 0)));
    watcher.observe(element.current);
    return () => watcher.disconnect();
  }, []);
  return [element, width];
}

/** The fragment of the page's address: `#live`. */
export function useHash(): string {
  const [hash, setHash] = useState(location.hash.slice(1));
  useEffect(() => {
    const onChange = (): void => setHash(location.hash.slice(1));
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return hash;
}
