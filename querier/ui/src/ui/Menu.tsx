// A list of things to do, where it was asked for: right click, the menu key, or Shift and F10.
import { useLayoutEffect, useRef } from 'preact/hooks';
import { readable } from '../flame/names';

export interface MenuItem { text: string; key?: string; run: () => void }
export interface MenuAt { title: string; x: number; y: number; items: MenuItem[] }

export function Menu({ title, x, y, items, close }: MenuAt & { close: () => void }) {
  const box = useRef<HTMLDivElement>(null), before = useRef(document.activeElement);
  const buttons = () => [...box.current!.querySelectorAll<HTMLElement>('[role=menuitem]')];
  const leave = () => {
    close();
    if (before.current instanceof HTMLElement) before.current.focus({ preventScroll: true });
  };
  useLayoutEffect(() => {
    const el = box.current!;
    el.style.left = `${Math.max(8, Math.min(x, innerWidth - el.offsetWidth - 8))}px`;
    el.style.top = `${Math.max(8, Math.min(y, innerHeight - el.offsetHeight - 8))}px`;
    buttons()[0]?.focus({ preventScroll: true });
    const outside = (e: Event) => {
      if (!el.contains(e.target as Node)) close();
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    document.addEventListener('scroll', close, true);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
      document.removeEventListener('scroll', close, true);
    };
  }, [x, y, title]);
  const onKeyDown = (e: KeyboardEvent) => {
    const all = buttons(), at = all.indexOf(document.activeElement as HTMLElement);
    if (e.key === 'Escape' || e.key === 'Tab') leave();
    else if (e.key === 'ArrowDown') all[(at + 1) % all.length].focus();
    else if (e.key === 'ArrowUp') all[(at + all.length - 1) % all.length].focus();
    else if (e.key === 'Home') all[0].focus();
    else if (e.key === 'End') all[all.length - 1].focus();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return (
    <div class="menu" role="menu" aria-label={title} ref={box} onKeyDown={onKeyDown} onContextMenu={(e) => e.preventDefault()}>
      <div class="title cut" role="presentation" title={readable(title)}>{readable(title)}</div>
      {items.map((item) => (
        <button key={item.text} role="menuitem" tabIndex={-1} onClick={() => {
          leave();
          item.run();
        }}>
          <span>{item.text}</span>{item.key && <kbd>{item.key}</kbd>}
        </button>
      ))}
    </div>
  );
}
