"""The style sheet of the page: light and dark, narrow and wide, on screens and on paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--bg:#fff;--panel:#f4f6f8;--text:#1a1d21;--quiet:#56606d;--line:#c5ccd4;--link:#0b5cad;
--bad:#b3261e;--warn:#7a5000;--good:#1b6e3c;--fill:#4386c5;--size:#123f6b;--a0:#8dbdec;--a1:#abcff1;--a2:#c6def5;--a3:#dbe9f6;
--a4:#e9eef3}
@media (prefers-color-scheme:dark){:root{--bg:#14171b;--panel:#1d2228;--text:#e8ebef;--quiet:#a9b3c0;--line:#414a56;
--link:#8cc2ff;--bad:#ff9389;--warn:#f2c14e;--good:#7bd69b;--fill:#3f7db8;--size:#d5e6f7;--a0:#22609c;--a1:#214f7e;--a2:#234262;
--a3:#25384d;--a4:#27303a}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--text);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header,nav,main,footer{max-width:1180px;margin:0 auto;padding:0 20px}
header{padding-top:24px}footer{padding-bottom:40px;color:var(--quiet)}
h1{font-size:1.7em;line-height:1.25;margin:0 0 .2em;overflow-wrap:anywhere}
h2{font-size:1.3em;margin:2em 0 .4em;padding-top:.5em;border-top:1px solid var(--line)}
h3{font-size:1.05em;margin:1.4em 0 .3em;overflow-wrap:anywhere}
p{margin:.4em 0;max-width:75ch}.quiet{color:var(--quiet)}a{color:var(--link)}
a:focus-visible,summary:focus-visible,.wide:focus-visible{outline:3px solid var(--link);outline-offset:2px}
code{font:.92em ui-monospace,"DejaVu Sans Mono",Consolas,monospace;overflow-wrap:anywhere}
.whole{white-space:nowrap}
.skip{position:absolute;left:-999em}.skip:focus{left:8px;top:8px;background:var(--bg);padding:.5em 1em;z-index:1}
nav ul{display:flex;flex-wrap:wrap;gap:.2em 1.2em;padding:0;margin:1em 0;list-style:none}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(165px,1fr));gap:10px;margin:1em 0}
.cards div{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.6em .8em}
.cards dt{color:var(--quiet);font-size:.88em}.cards dd{margin:0;font-size:1.15em;font-weight:600}
.cards dd small{display:block;font-size:.72em;font-weight:400;color:var(--quiet)}
.bad{color:var(--bad)}.warn{color:var(--warn)}.good{color:var(--good)}
.first li{margin:.35em 0;max-width:85ch}
.tag{display:inline-block;border:1px solid currentcolor;border-radius:4px;padding:0 .4em;font-size:.78rem;
font-weight:600;
color:var(--warn);vertical-align:middle}
.wide{overflow:auto;max-width:100%;max-height:36em;margin:.6em 0}
table{border-collapse:collapse;font-size:.92em}
caption{text-align:left;color:var(--quiet);padding:.2em 0 .5em;max-width:75ch}
th,td{padding:.28em .9em .28em 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line);
white-space:nowrap}
th{font-weight:600}thead th{position:sticky;top:0;background:var(--bg);box-shadow:inset 0 -2px var(--line);
vertical-align:bottom}
td.words{white-space:normal;min-width:18em;max-width:44em;overflow-wrap:anywhere}
td.name{white-space:normal;overflow-wrap:anywhere;min-width:9em;max-width:24em}
.n2 :is(td,th):nth-child(n+2),.n3 :is(td,th):nth-child(n+3),.n4 :is(td,th):nth-child(n+4),
.n5 :is(td,th):nth-child(n+5){text-align:right;font-variant-numeric:tabular-nums}
.bar{display:inline-block;width:64px;height:.65em;border:1px solid var(--line);margin-left:.6em}
.bar i{display:block;height:100%;background:var(--fill)}
figure{margin:1.2em 0}figcaption{font-weight:600}
.plot{display:grid;grid-template-columns:auto 1fr;gap:0 .6em;font-size:.85em;color:var(--quiet);margin-top:.4em}
.plot svg{grid-row:1/3;grid-column:2;width:100%;height:150px;border:1px solid var(--line);border-width:0 0 1px 1px}
.plot .low{align-self:end;text-align:right}.plot .high{text-align:right}
.plot .times{grid-column:2;display:flex;justify-content:space-between;gap:1em}
.plot path{fill:var(--fill)}
.maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(330px,100%),1fr));gap:0 28px}
.maps>div{min-width:0}.map{display:flex;flex-wrap:wrap;gap:2px;margin:.4em 0}
.map i,.key i{font-style:normal;display:inline-block;position:relative;width:2.3em;height:2.9em;
border:1px solid var(--line);
font:600 .8em/1.3 ui-monospace,"DejaVu Sans Mono",Consolas,monospace;text-align:center;overflow:hidden;
color:var(--text);
white-space:pre;background:linear-gradient(to top,var(--size) calc(var(--h,0)*1%),transparent 0) left/5px no-repeat,
var(--a,var(--bg))}
.a0{--a:var(--a0)}.a1{--a:var(--a1)}.a2{--a:var(--a2)}.a3{--a:var(--a3)}.a4{--a:var(--a4)}
.map i.x,.key i.x{border-bottom:4px double var(--warn)}.map i.d,.key i.d{border:3px solid var(--bad);line-height:1.1}
.key{display:flex;flex-wrap:wrap;gap:.5em 1.4em;padding:0;margin:.8em 0;list-style:none;font-size:.9em}
.key i{vertical-align:middle;margin-right:.5em}
details{margin:.4em 0}summary{cursor:pointer;color:var(--link)}
@media (max-width:600px){body{font-size:14px}header,nav,main,footer{padding-left:12px;padding-right:12px}
.cards{grid-template-columns:repeat(2,1fr)}}
@media print{:root{color-scheme:light;--bg:#fff;--panel:#fff;--text:#000;--quiet:#333;--line:#999;--link:#000;
--bad:#900;
--warn:#640;--good:#040;--fill:#777;--size:#222;--a0:#bbb;--a1:#c8c8c8;--a2:#d6d6d6;--a3:#e4e4e4;--a4:#f2f2f2}
body{font-size:10pt}nav,.skip,summary{display:none}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.wide{overflow:visible;max-height:none}th,td{white-space:normal;padding-right:.5em}
tr,figure,.map i{break-inside:avoid}
h2,h3{break-after:avoid}thead{display:table-header-group}header,nav,main,footer{max-width:none;padding:0}}
"""
