// Package status makes one document about the state of the daemon, from one snapshot.
//
// # Place in the flow
//
// It reads the configuration file, the stock in Redis, refill, the buyer with its dead letters,
// and the claims of on-demand solves. Its readers are the page, /status.json, GET /pool/{target}
// and /metrics in httpapi, and `poold status`, which decodes the same types. It changes nothing
// and knows no HTTP.
//
// # Parts
//
//   - document.go: the document. Its JSON names are a promise.
//   - collector.go: Collector queries the sources and makes a Snapshot. survey.go reads the stock
//     in parts; ondemand.go and source.go query on-demand solves beside the rest.
//   - cached.go: keeps the last snapshot, and the last state of the providers.
//   - target.go, cause.go, notices.go, history.go, figures.go, money.go: convert the answers of the
//     sources. cause.go has the reasons that callers get too.
//   - snapshot.go, metrics.go: the snapshot as JSON and as metrics.
//   - feed.go: Feed sends changes to many readers; copy.go: Copy rebuilds the document from them.
//
// # Invariants
//
//   - All readers share one snapshot, so they cannot disagree.
//   - A snapshot and its document are immutable.
//   - The load on Redis does not depend on the number of readers: a few queries a second at most.
//   - While Redis does not answer, a snapshot still comes within a second, with the last known
//     figures and the reason. Metrics leave those figures out.
//   - On-demand solves delay a snapshot by at most a quarter of a second. One query about them
//     ends after 10 s.
//   - Figures are rounded here, so all readers show the same digits.
//   - No token and no key is in the document.
package status
