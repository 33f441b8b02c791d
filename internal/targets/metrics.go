package targets

// PerTarget says which series /metrics has for each target.
type PerTarget string

// The values of metrics.per_target.
const (
	PerTargetFull      PerTarget = "full"      // all
	PerTargetEssential PerTarget = "essential" // those of the ledger and of deploy/; docs/metrics.md lists the others
)

// Metrics is the section metrics. A reload applies it.
type Metrics struct {
	PerTarget PerTarget `key:"per_target" words:"full essential" default:"full" doc:"Which series /metrics has for each target. essential: those that the ledger, the alerts and the dashboard need, and histograms only for targets that handed out a token; for thousands of targets."`
}
