// The list of keys, made from what is bound, and the switch for those whom single keys disturb.
import { useEffect, useRef } from 'preact/hooks';
import { bindings, keysOn, setKeysOn } from './keys';

const GRAPH: [string[], string][] = [
  [['↑', '↓', '←', '→'], 'In the flame graph: caller, heaviest callee, neighbours'],
  [['Enter'], 'In the flame graph: zoom in; on the zoomed frame: one out'],
  [['Menu'], 'On a frame or row: what can be done with it'],
  [['Ctrl', 'wheel'], 'In the flame graph: zoom about the pointer; drag to move'],
];

export function Help({ close }: { close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby="keys-title" onClose={close} onClick={(e) => e.target === dialog.current && dialog.current?.close()}>
      <div class="inside">
        <div class="row"><h2 id="keys-title">Keys</h2><button class="btn small" onClick={() => dialog.current!.close()}>Close</button></div>
        <table>
          <tbody>
            {bindings().map((b) => (
              <tr key={b.text}><th scope="row">{b.keys.map((k) => <kbd key={k}>{k.length === 2 ? k.split('').join(' ') : k}</kbd>)}</th><td>{b.text}</td></tr>
            ))}
            {GRAPH.map(([keys, text]) => <tr key={text}><th scope="row">{keys.map((k) => <kbd key={k}>{k}</kbd>)}</th><td>{text}</td></tr>)}
          </tbody>
        </table>
        <label class="check"><input type="checkbox" checked={keysOn.value} onChange={(e) => setKeysOn(e.currentTarget.checked)} />Single keys work anywhere on the page</label>
      </div>
    </dialog>
  );
}
