// Times in addresses, in Pyroscope's grammar: `now`, `now-1h`, or a number whose length tells its unit
// (13 digits ms, 16 µs, 19 ns, otherwise s). Relative times stay relative in links; absolute ones are written in ms.

export interface Preset { from: string; text: string }

export const DEFAULT_FROM = 'now-1h';
export const PRESETS: Preset[] = [
  { from: 'now-5m', text: 'Last 5 minutes' },
  { from: 'now-15m', text: 'Last 15 minutes' },
  { from: 'now-1h', text: 'Last hour' },
  { from: 'now-6h', text: 'Last 6 hours' },
  { from: 'now-24h', text: 'Last 24 hours' },
  { from: 'now-7d', text: 'Last 7 days' },
  { from: 'now-30d', text: 'Last 30 days' },
];

const UNIT_MS: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3, M: 2592000e3, y: 31536000e3 };
const WORDS: Record<string, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month', y: 'year' };
const RELATIVE = /^now(?:-(\d{1,9})([smhdwMy]))?$/;

/** A time in ms, or null for text that is not a time. */
export function readTime(text: string, nowMs: number): number | null {
  const m = RELATIVE.exec(text);
  if (m) return nowMs - (m[1] ? Number(m[1]) * UNIT_MS[m[2]] : 0);
  if (!/^\d{1,19}$/.test(text)) return null;
  const n = Number(text);
  if (text.length === 13) return n;
  if (text.length === 16) return Math.round(n / 1e3);
  if (text.length === 19) return Math.round(n / 1e6);
  const ms = n * 1e3;
  return ms <= 8.64e15 ? ms : null; // beyond the last day that a Date can hold
}

export interface Range { start: number; end: number } // ms

export function readRange(from: string, until: string, nowMs: number): Range | null {
  const start = readTime(from, nowMs), end = readTime(until, nowMs);
  return start !== null && end !== null && start < end ? { start, end } : null;
}

/** True if the range moves with the clock, so that refreshing it makes sense. */
export const isRelative = (until: string): boolean => until.startsWith('now');

// 24 hours, day before the name of the month: nothing to confuse on either side of the Atlantic.
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', year: 'numeric' });
const CLOCK = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });

export const clock = (ms: number): string => CLOCK.format(ms);
export const moment = (ms: number): string => `${DAY.format(ms)}, ${clock(ms)}`;

/** The zone that all times on the page are in. */
export function zoneName(ms: number): string {
  const parts = new Intl.DateTimeFormat('en-GB', { timeZoneName: 'short' }).formatToParts(ms);
  return parts.find((p) => p.type === 'timeZoneName')?.value ?? '';
}

/** "Last 6 hours", "21 Nov 2026, 09:00:00 – 10:00:00". */
export function rangeText(from: string, until: string, range: Range): string {
  const preset = until === 'now' && PRESETS.find((p) => p.from === from);
  if (preset) return preset.text;
  const m = RELATIVE.exec(from);
  if (until === 'now' && m?.[1]) return `Last ${m[1]} ${WORDS[m[2]]}${m[1] === '1' ? '' : 's'}`;
  const sameDay = DAY.format(range.start) === DAY.format(range.end);
  return `${moment(range.start)} – ${sameDay ? clock(range.end) : moment(range.end)}`;
}

/** What <input type="datetime-local"> holds: the time in the zone of the browser. */
export function toField(ms: number): string {
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60e3);
  return local.toISOString().slice(0, 19);
}

export function fromField(text: string): number | null {
  const ms = new Date(text).getTime();
  return Number.isNaN(ms) ? null : ms;
}
