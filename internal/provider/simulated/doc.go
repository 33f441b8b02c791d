// Package simulated is a CAPTCHA solving service as an http.Handler. The daemon buys from it
// if no provider has a key and Redis is embedded. Tests of every package buy from it too.
//
// It is the server side of both protocols. It shares package provider/wire with poold's own
// endpoints and does not import package provider:
//
//	/in.php      submit       GET query, POST form, multipart or JSON
//	/res.php     action=get, getbalance, reportgood, reportbad, threadsinfo
//	/createTask, /getTaskResult, /getBalance and the paths of reports   POST JSON
//	/ledger      GET: the sales (only with Options.LedgerHTTP)
//	/faults      PUT: the faults in force from now on (likewise)
//
// A submit draws the task's lead time from a lognormal distribution, and whether the task is
// unsolvable. Equal seeds and equal orders of submits give equal tasks. Tasks need no goroutine
// and no timer, except for a pingback: a task is ready when the clock has passed its due time.
//
// # Parts
//
//	service.go, serve.go, answer.go   calls and their answers
//	legacy.go, tasks.go               the calls of each protocol
//	books.go, ledger.go               sales, reports and totals
//	pingback.go                       pingbacks
//	faults.go                         which call goes wrong, and how
//	token.go                          the text of solutions
//
// # Tokens
//
// No site accepts the tokens, and their text says so: SIMULATED.<type>.<task>.<identity>.<filler>.
// For a GeeTest, that is one of its values. The text of a picture has 0 for the task, so
// that equal pictures have equal texts. IdentityOf reads the identity back from a token.
//
// # Ledger and faults
//
// Totals are exact. With Options.Ledger every sale is kept too, so that a test can assert
// "bought once, collected once, never over the cap". SetFaults makes calls go wrong as
// networks and services do; Fault.Accepted says whether the call takes effect before that.
// Options and faults can be sent as JSON to a Service in another process, except Fault.When
// and Options.Log.
//
// # Invariants
//
//   - A submit is counted as exactly one of Submitted and Refused.
//   - A task occupies a thread from its submit to its due time, polled or not. With a
//     cap, InFlight never exceeds it.
//   - Without Options.Ledger, memory is bounded by the submits of the last lead time plus
//     five minutes.
//
// The package solves nothing, reads only size and format of pictures, and forgets everything
// at a restart.
package simulated
