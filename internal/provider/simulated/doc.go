// Package simulated is a simulated CAPTCHA solving service, an http.Handler. If no provider has a
// key and Redis is embedded, the daemon buys from this service. Tests use the service as their
// provider.
//
// The package is the server side of both protocols. It shares package provider/wire with poold's
// own endpoints, and does not import package provider. The service has these paths:
//
//	/in.php      submit       GET query, POST form, multipart or JSON
//	/res.php     action=get, getbalance, reportgood, reportbad, threadsinfo
//	/createTask, /getTaskResult, /getBalance and the paths of reports   POST JSON
//	/ledger      GET: the sales (only with Options.LedgerHTTP)
//	/faults      PUT: the faults in force from now on (likewise)
//
// When a task is submitted, it gets a lead time from a lognormal distribution, and a random
// decision whether it is unsolvable. The same seed and the same sequence of submissions give the
// same tasks. A task is ready after its due time. Therefore tasks need no goroutine and no timer,
// except for pingbacks.
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
// The tokens are marked as simulated, and no site accepts them. A token has the form
// SIMULATED.<type>.<task>.<identity>.<filler>. The solution of a GeeTest has this form in one of
// its named values. The text of a picture has 0 in place of the task, so that equal pictures have
// equal texts. IdentityOf returns the identity that a token contains.
//
// # Ledger and faults
//
// Totals are exact. With Options.Ledger the service also keeps every sale. Tests can then check
// that each token was bought and collected once, and that the orders never exceeded the cap.
// SetFaults makes calls fail in the same ways as real networks and services. Fault.Accepted says
// whether a failed call takes effect. Options and faults can be sent as JSON to a Service in
// another process, except Fault.When and Options.Log.
//
// # Invariants
//
//   - Each submission is counted in exactly one of Submitted and Refused.
//   - A task occupies a thread from its submission to its due time, whether or not it is polled.
//     InFlight never exceeds Options.Threads, unless Threads is 0.
//   - Without Options.Ledger, a task occupies memory only until five minutes after its due time.
//
// The package solves no CAPTCHA. Of pictures, it checks only the size and the format. It keeps all
// state in memory.
package simulated
