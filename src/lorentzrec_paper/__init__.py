"""The experiments of the paper, one file each; `lorentzrec reproduce NAME` runs them.

To add one, write `lorentzrec_paper/NAME.py` that ends in

    EXPERIMENT = Experiment("NAME", "What it is, in a line", run)

and add NAME to `EXPERIMENTS` in `registry.py`. `run(context)` returns an `Outcome`, and does no writing of its own:

    def run(context: Context) -> Outcome:
        films = context.data.find("movielens-100k")        # raises MissingData: which file, from which page
        seeds = range(2 if context.quick else 9)
        results = context.run(                             # finished parts are kept on disk and not run again
            Part(f"seed {seed}", {"data": films.digest, "seed": seed}, lambda seed=seed: measure(films, seed))
            for seed in seeds
        )
        return Outcome(tables=..., verdicts=..., figures=..., notes=..., settings=...)

- A part's key names everything that its result depends on: settings, seed, the digest of the data. Its result is plain
  JSON. Read data inside `make` only (`films.interactions(...)` reads once), so that a resumed run reads nothing.
- `context.available(names)` gives the data sets at hand and says a line about each one that is missing or damaged.
- A number is ours or the paper's: each `Column` says which, and the heading prints it.
- Figures are functions that draw to a path; each is called for PNG and SVG. Drawing itself lives in `figures/`.
"""
