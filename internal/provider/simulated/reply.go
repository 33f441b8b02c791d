package simulated

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"poold/internal/provider/wire"
)

// refusal begins the explanation of each error code.
const refusal = "the simulated service refuses: "

// execute executes a call. It returns the task of a submission or of a poll, or an error code of the
// protocol in_php.
func (s *Service) execute(c wire.Call, inPHP bool, at time.Time) (t Task, code string) {
	if c.Action == wire.Submit {
		return s.sell(c.Order.Identity, inPHP, cmp.Or(s.keyError(c.Key), c.Bad, c.Order.Bad), at)
	}
	if code = cmp.Or(c.Bad, s.keyError(c.Key)); code != "" {
		return t, code
	}
	switch {
	case c.Action == wire.Balance, c.Action == wire.Threads:
		return t, ""
	case c.Action == wire.Poll && !c.Many:
		return s.poll(c.IDs[0], at)
	case c.Action == wire.Report:
		return t, s.report(c.IDs[0], c.Good, at)
	case c.Word == "":
		return t, wire.CodeEmptyAction
	}
	return t, wire.CodeBadParams
}

// inPHPReply returns the response of in.php or res.php.
func (s *Service) inPHPReply(c wire.Call, t Task, code string, at time.Time) wire.Reply {
	f := c.Form
	switch {
	case strings.HasPrefix(code, "ERROR"):
		return f.Fail(code, refusal+code)
	case code != "":
		return f.Fail(code, "")
	case c.Action == wire.Submit:
		return f.Accept(strconv.FormatInt(t.Number, 10))
	case c.Action == wire.Balance:
		return f.Bare(strconv.FormatFloat(s.opts.Balance, 'f', -1, 64))
	case c.Action == wire.Threads:
		s.mu.Lock()
		defer s.mu.Unlock()
		threads, working := cmp.Or(s.opts.Threads, manyThreads), s.workingLocked(at)
		return wire.JSON(wire.ThreadsAnswer{Status: 1, Threads: threads, Working: working, Free: max(0, threads-working)})
	case c.Action == wire.Report:
		return f.Bare("OK_REPORT_RECORDED")
	}
	v := wire.InPHPAnswer{Status: 1, Request: s.Token(t), Useragent: s.opts.userAgent(t)}
	if values := t.namedValues(); values != nil {
		v.Request = values
	}
	return f.Say("OK|"+s.Token(t), v)
}

// createTaskReply returns the response of the protocol create_task.
func (s *Service) createTaskReply(c wire.Call, t Task, code string) wire.CreateTaskAnswer {
	switch {
	case code != "":
		return wire.CreateTaskError(code, refusal+code)
	case c.Action == wire.Submit:
		return wire.CreateTaskAnswer{TaskID: t.Number}
	case c.Action == wire.Poll:
		return s.Result(t)
	case c.Action == wire.Balance:
		return wire.CreateTaskAnswer{Balance: &s.opts.Balance}
	}
	return wire.CreateTaskAnswer{Status: "success"}
}

// Result returns the response of getTaskResult for a task after its due time.
func (s *Service) Result(t Task) wire.CreateTaskAnswer {
	if t.Failed {
		return wire.CreateTaskError(wire.CodeUnsolvable, refusal+wire.CodeUnsolvable)
	}
	return wire.CreateTaskAnswer{
		Status: "ready", Solution: wire.Solved(t.Identity.Type, s.Token(t), t.namedValues(),
			map[string]string{"userAgent": s.opts.userAgent(t)}),
		Cost: price, IP: "127.0.0.1",
		CreateTime: t.At.Unix(), EndTime: t.Due.Unix(), SolveCount: 1,
	}
}
