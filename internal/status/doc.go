// Package status makes snapshots of the state of the daemon. Each snapshot has one document.
//
// # Place in the flow
//
// The package reads the configuration, the stock in Redis, the status of package refill, the buyer
// with its dead letters, and the claims of on-demand solves. The readers of a snapshot are the
// page, /status.json, GET /pool/{target} and /metrics in package httpapi. The command `poold
// status` decodes the same types. The package changes no state and does not use HTTP.
//
// # Parts
//
//   - document.go: the document. Its JSON names never change.
//   - collector.go: the Collector, which queries the sources and makes a Snapshot. survey.go reads
//     the stock in parts; ondemand.go and source.go query on-demand solves concurrently with the
//     rest.
//   - cached.go: keeps the last snapshot, and the last state of the providers.
//   - target.go, cause.go, notices.go, history.go, figures.go, money.go: convert the data of the
//     sources. cause.go contains the reasons that callers without a token also get.
//   - snapshot.go, metrics.go: the snapshot as JSON and as metrics.
//
// # Invariants
//
//   - All readers at one time share one snapshot and therefore see no contradictory figures.
//   - A snapshot and its document are immutable.
//   - The load on Redis is at most a few queries a second, regardless of the number of readers.
//   - While Redis does not respond, a snapshot still takes at most a second. The document then
//     contains the last known figures and the reason; the metrics omit these figures.
//   - The queries about on-demand solves delay a snapshot by at most a quarter of a second. Each of
//     these queries ends after at most 10 s.
//   - Figures are rounded in this package, so all readers show the same digits.
//   - The document contains no token and no key.
package status
