package status

import "context"

// Brief returns one line for `systemctl status`: the number of targets and of their ready tokens, why
// tokens cannot be served, and whether the configuration file was refused. The tokens of more than
// manyTargets targets are not counted, because a survey is too expensive for a line that may have no
// reader. The line quotes nothing from the configuration file, because every local user can read it.
func (c *Collector) Brief(ctx context.Context) string {
	set := c.File.Current()
	line := "serving " + plural(len(set.Targets), "target")
	health := c.Health()
	switch {
	case !health.Up:
		line = "waiting for redis, which holds the tokens of " + plural(len(set.Targets), "target") + ": " + health.Reason
	case !many(set):
		ready := 0
		document := c.snapshot(ctx).Document
		for i := range document.Targets {
			ready += document.Targets[i].Fresh
		}
		line += ", " + plural(ready, "token") + " ready"
	}
	if !c.File.Status().OK {
		line += "; the configuration file was refused, the last good one stays in use: see the log"
	}
	return line
}
