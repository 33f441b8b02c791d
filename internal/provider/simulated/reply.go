package simulated

import (
	"cmp"
	"strconv"
	"time"

	"poold/internal/provider/wire"
)

// refusal begins the explanation of each error code.
const refusal = "the simulated service refuses: "

// execute executes a call and returns the response.
func (s *Service) execute(c *wire.Call, at time.Time) wire.Reply {
	code := cmp.Or(s.keyError(c.Key), c.Bad, c.Order.Bad)
	var t Task
	switch {
	case code != "":
	case c.Action == wire.Submit:
		if t, code = s.sell(c.Order.Identity, at); code == "" {
			return c.Accepted(strconv.FormatInt(t.Number, 10))
		}
	case c.Action == wire.Poll && !c.Many:
		if t, code = s.poll(c.IDs[0], at); code == "" {
			return c.Solved(s.Solution(t))
		}
	case c.Action == wire.Report:
		if code = s.report(c.IDs[0], c.Good, at); code == "" {
			return c.Reported()
		}
	case c.Action == wire.Balance:
		return c.Balance(s.opts.Balance)
	case c.Action == wire.Threads:
		return wire.JSON(s.threads(at))
	case c.Word == "":
		code = wire.CodeEmptyAction
	default:
		code = wire.CodeBadParams
	}
	return c.Failed(code, refusal+code)
}
