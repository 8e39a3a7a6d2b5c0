"""What Python needs to import a base (json, pandas) and to open it again (pickle, numpy)."""
import tempfile

from common import arguments, load_graph, load_nodes, measure, parse, save

work_kind, base, work = arguments('import|open BASE WORK')
if work_kind == 'import':
    import pandas  # noqa: F401  imported before the clock starts
    with tempfile.TemporaryDirectory(dir=work) as place:
        measure('import', 1, lambda: save(place, *parse(base)))
else:
    import numpy  # noqa: F401
    measure('open', 1, lambda: (load_nodes(work), load_graph(work)))
