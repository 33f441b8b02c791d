// Package simulated is a whole CAPTCHA solving service as an http.Handler. It
// is what an embedded poold buys from when no real provider has a key, and it
// is the double that the tests of every package buy from.
//
// It is the server's side: it does not import package provider, shares package provider/wire
// with poold's own endpoints, and speaks both protocols,
//
//	/in.php      submit       GET query, POST form, multipart or JSON
//	/res.php     action=get, get2, getbalance, reportgood, reportbad, threadsinfo
//	/createTask, /getTaskResult, /getBalance   POST JSON
//	/reportCorrect, /reportIncorrect           2captcha's, for every type
//	/reportCorrectRecaptcha, /reportIncorrectRecaptcha, /reportIncorrectHcaptcha,
//	/reportIncorrectImageCaptcha, /reportIncorrectTokenCaptcha
//	/ledger      GET: the sales (only with Options.LedgerHTTP)
//	/faults      PUT: the faults in force from now on (likewise)
//
// A task is accepted, takes a lead time drawn from a lognormal distribution
// and is then solved or unsolvable; that is decided at the submit, so equal
// seeds and equal orders of submits give equal lots. No goroutine and no timer
// runs for a task (but for a pingback): a task is ready when the clock says so.
//
// # Parts
//
//	service.go, serve.go     the calls, and which protocol they are in
//	legacy.go, tasks.go      the calls of each protocol; package wire reads them and writes
//	                         the answers
//	books.go, ledger.go, report.go  the sales and their outcomes
//	limits.go                abuse limits, and the bans for breaking them
//	pingback.go              pingbacks
//	faults.go, control.go    which call goes wrong, and how
//	life.go                  what outlives a call, until Close
//
// # Tokens
//
// They are worth nothing and say so: SIMULATED.<type>.<task>.<identity>.<filler>.
// That is one of the values of a GeeTest, which are written as Options.Shape says. A
// picture's text has 0 for the task: the same picture reads the same each time.
// IdentityOf reads back for which identity a token was solved.
//
// # Ledger
//
// Totals are always exact. With Options.Ledger every sale is kept too, so that
// a test can say "bought once, collected once, never over the cap".
//
// # Faults
//
// SetFaults makes calls go wrong in the ways in which networks and services do.
// A fault says whether the call takes effect before it goes wrong: that decides whether a task
// was bought.
// Options and faults survive JSON (but for Fault.When and Options.Log), so that
// a test can start a Service in another process and change its faults there.
//
// # Invariants
//
//   - A submit is counted as exactly one of Submitted and Refused.
//   - A task holds a thread from its submit to its due time, polled or not;
//     with a cap, InFlight never exceeds it.
//   - Without Options.Ledger memory is bounded by the submits of the last lead
//     time plus Options.Keep.
//   - No call does work that grows with the number of tasks; only Sold does.
//
// It does not solve anything, does not look at pictures beyond their first bytes and
// their size, and does not keep anything over a restart.
package simulated
