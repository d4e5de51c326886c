"""The report of a run: the page (`html`), JUnit XML (`junit`) and the terminal (`terminal`), all from one `Result`."""
