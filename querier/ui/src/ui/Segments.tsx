interface Props<T extends string> { label: string; value: T; of: [T, string][]; set: (v: T) => void }

/** A few choices side by side, one of them pressed. */
export function Segments<T extends string>({ label, value, of, set }: Props<T>) {
  return (
    <span class="segments" role="group" aria-label={label}>
      {of.map(([k, text]) => <button key={k} aria-pressed={value === k} onClick={() => set(k)}>{text}</button>)}
    </span>
  );
}
