// Times in addresses, in Pyroscope's grammar: `now`, `now-1h`, or a number whose length tells its unit
// (13 digits ms, 16 µs, 19 ns, otherwise s); dates of ISO 8601 as well. Relative times stay relative in links; absolute
// ones are written in ms.
import { signal } from '@preact/signals';

export interface Preset { from: string; text: string }

export const DEFAULT_FROM = 'now-1h';
export const PRESETS: Preset[] = [
  { from: 'now-5m', text: 'Last 5 minutes' },
  { from: 'now-15m', text: 'Last 15 minutes' },
  { from: 'now-30m', text: 'Last 30 minutes' },
  { from: 'now-1h', text: 'Last hour' },
  { from: 'now-3h', text: 'Last 3 hours' },
  { from: 'now-6h', text: 'Last 6 hours' },
  { from: 'now-12h', text: 'Last 12 hours' },
  { from: 'now-24h', text: 'Last 24 hours' },
  { from: 'now-7d', text: 'Last 7 days' },
  { from: 'now-30d', text: 'Last 30 days' },
  { from: 'now-90d', text: 'Last 90 days' },
  { from: 'now-400d', text: 'Last 400 days' },
];

const UNIT_MS: Record<string, number> = { s: 1e3, m: 60e3, h: 3600e3, d: 86400e3, w: 604800e3, M: 2592000e3, y: 31536000e3 };
const WORDS: Record<string, string> = { s: 'second', m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month', y: 'year' };
const RELATIVE = /^now(?:-(\d{1,9})([smhdwMy]))?$/;
const SHORTEST_MS = 1e3;

const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?)?(?: ?(Z|([+-])(\d\d):?(\d\d)))?$/i;

/** A date, with or without a time and a zone; without a zone it is in that of the page. `end`: a day means its end. */
function readDate(text: string, end: boolean): number | null {
  // A plus sign of an address that is not encoded is read as a space.
  const [, y, month, d, h, min = 0, s = 0, zone, sign, hours = 0, minutes = 0] = ISO.exec(text.replace(/(:\d\d) (?=\d\d:?\d\d$)/, '$1+')) ?? [];
  const midnight = new Date(`${y}-${month}-${d}`);
  if (!y || midnight.getUTCDate() !== Number(d)) return null; // as 31 February
  const of = [Number(y), Number(month) - 1, Number(d) + (end && h === undefined ? 1 : 0), Number(h ?? 0), Number(min), 0, Number(s) * 1e3] as const;
  if (!zone && !utc.value) return new Date(...of).getTime();
  return Date.UTC(...of) - Number(`${sign ?? '+'}1`) * (Number(hours) * 60 + Number(minutes)) * 60e3;
}

/** A time in ms, or null for text that is not a time. */
export function readTime(text: string, nowMs: number, end = false): number | null {
  const m = RELATIVE.exec(text);
  if (m) return nowMs - (m[1] ? Number(m[1]) * UNIT_MS[m[2]] : 0);
  if (!/^\d{1,19}$/.test(text)) return readDate(text, end);
  const n = Number(text);
  if (text.length === 13) return n;
  if (text.length === 16) return Math.round(n / 1e3);
  if (text.length === 19) return Math.round(n / 1e6);
  const ms = n * 1e3;
  return ms <= 8.64e15 ? ms : null; // beyond the last day that a Date can hold
}

export interface Range { start: number; end: number } // ms

export function readRange(from: string, until: string, nowMs: number): Range | null {
  const start = readTime(from, nowMs), end = readTime(until, nowMs, true);
  return start !== null && end !== null && start < end ? { start, end } : null;
}

/** True if the range moves with the clock, so that refreshing it makes sense. */
export const isRelative = (until: string): boolean => until.startsWith('now');

export interface RangeText { from: string; until: string }

/** `now-90m`, to the second. */
function ago(lengthMs: number): string {
  const ms = Math.round(lengthMs / 1e3) * 1e3, unit = ['d', 'h', 'm', 's'].find((u) => ms % UNIT_MS[u] === 0)!;
  return ms === 0 ? 'now' : `now-${ms / UNIT_MS[unit]}${unit}`;
}

/** The range so long before; relative if it ends now. */
export function rangeBefore({ from, until }: RangeText, range: Range, byMs: number): RangeText {
  if (until === 'now' && RELATIVE.test(from)) return { from: ago(range.end - range.start + byMs), until: ago(byMs) };
  return { from: String(Math.round(range.start - byMs)), until: String(Math.round(range.end - byMs)) };
}

/** The range earlier or later by a part of its length, as far as now. */
export function moveRange(range: Range, by: number, nowMs: number): RangeText {
  const length = range.end - range.start, end = Math.min(nowMs, range.end + by * length);
  return { from: String(Math.round(end - length)), until: String(Math.round(end)) };
}

/** The range longer or shorter: about its middle, or up to now if it ends there. */
export function scaleRange({ from, until }: RangeText, range: Range, by: number, nowMs: number): RangeText {
  const m = RELATIVE.exec(from), length = Math.max(SHORTEST_MS, (range.end - range.start) * by);
  if (until === 'now' && m?.[1]) {
    return { from: ago(length), until };
  }
  const end = Math.min(nowMs, (range.start + range.end + length) / 2);
  return { from: String(Math.round(end - length)), until: String(Math.round(end)) };
}

/** The zone of all times on the page: the browser's, or UTC. */
export const utc = signal(false);

// 24 hours, day before the name of the month: nothing to confuse on either side of the Atlantic.
const formats = new Map<string, Intl.DateTimeFormat>();
function format(name: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = name + (utc.value ? ' UTC' : '');
  let f = formats.get(key);
  if (!f) formats.set(key, (f = new Intl.DateTimeFormat('en-GB', { ...options, ...(utc.value ? { timeZone: 'UTC' } : {}) })));
  return f;
}

export const clock = (ms: number): string =>
  format('clock', { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(ms);
const minutes = (ms: number): string => format('minutes', { hour: '2-digit', minute: '2-digit' }).format(ms);
const day = (ms: number): string => format('day', { day: 'numeric', month: 'short', year: 'numeric' }).format(ms);
const shortDay = (ms: number): string => format('short day', { day: 'numeric', month: 'short' }).format(ms);
export const moment = (ms: number): string => `${day(ms)}, ${clock(ms)}`;

/** The name of the zone at a time. */
export function zoneName(ms: number): string {
  const parts = format('zone', { timeZoneName: 'short' }).formatToParts(ms);
  return parts.find((p) => p.type === 'timeZoneName')?.value ?? '';
}

/** A mark of a time axis whose marks are so many seconds apart. */
export function tickText(ms: number, apartS: number): string {
  if (apartS >= 86400 || clock(ms) === '00:00:00') return shortDay(ms);
  return apartS < 60 ? clock(ms) : minutes(ms);
}

/** "Last 6 hours", "21 Nov 2026, 09:00:00 – 10:00:00". */
export function rangeText(from: string, until: string, range: Range): string {
  const preset = until === 'now' && PRESETS.find((p) => p.from === from);
  if (preset) return preset.text;
  const m = RELATIVE.exec(from);
  if (until === 'now' && m?.[1]) return `Last ${m[1]} ${WORDS[m[2]]}${m[1] === '1' ? '' : 's'}`;
  if (RELATIVE.test(from) && RELATIVE.test(until)) return `${from} – ${until}`;
  const sameDay = day(range.start) === day(range.end);
  return `${moment(range.start)} – ${sameDay ? clock(range.end) : moment(range.end)}`;
}

/** The text of a field of the range: the time in the zone of the page. */
export function toField(text: string, ms: number): string {
  if (RELATIVE.test(text)) return text;
  const local = utc.value ? ms : ms - new Date(ms).getTimezoneOffset() * 60e3;
  return new Date(local).toISOString().slice(0, 19).replace('T', ' ');
}

/** The address' form of a time that was typed into a field: relative times as they are, others in ms; null if it is no time. */
export function fromField(text: string, end = false): string | null {
  const typed = text.trim(), relative = typed.replace(/\s/g, '').replace(/^now/i, 'now'), ms = readTime(typed, 0, end);
  if (RELATIVE.test(relative)) return relative;
  return ms === null ? null : String(ms);
}
