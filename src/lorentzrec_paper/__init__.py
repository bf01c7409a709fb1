"""The experiments of the paper, one file each; `lorentzrec reproduce NAME` runs them.

To add one, write `lorentzrec_paper/NAME.py` that ends in

    EXPERIMENT = Experiment("NAME", "What it is, in one line", run)

and add NAME to `EXPERIMENTS` in `experiment.py`. `run(context)` returns an `Outcome` and writes nothing itself:

    @dataclass(frozen=True)
    class Measured:
        hr: float

    def run(context: Context) -> Outcome:
        films = context.data.find("movielens-100k")        # raises MissingData: which file, from which page
        seeds = range(2 if context.quick else 9)
        results = context.run(                             # finished parts are read from disk instead of run again
            Measured,
            (
                Part(f"seed {seed}", {"data": films.digest, "seed": seed}, partial(measure, films, seed))
                for seed in seeds
            ),
        )
        return Outcome(tables=..., verdicts=..., figures=..., notes=..., settings=...)

- A part's key names everything that its result depends on: settings, seed, the digest of the data. Its result is a
  dataclass, or a list of them, that can be written as JSON. Read data inside the part only (`films.interactions(...)`
  reads once), so that a resumed run reads nothing.
- `context.find_data(names)` returns the available data sets and prints a line about each that is missing or damaged.
- `context.services` has the addresses of services that the user gave; `servers.py` starts those that are missing.
- A number is ours or the paper's: each `Column` has an origin, which is part of its heading.
- A figure is a function that draws to a path; it is called once for PNG and once for SVG. Drawing is in `figures.py`.
"""
