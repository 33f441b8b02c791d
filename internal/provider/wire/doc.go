// Package wire is the server's side of both protocols of the trade: it reads what a
// client of a solving service sends, and writes what such a service answers.
//
// Package provider is the client's side. Those who use this one are simulated, which is
// a service, and httpapi, which speaks to clients as one does.
//
//	legacy.go  in.php and res.php: the calls;  legacyanswer.go: the answers
//	tasks.go   createTask and its family;      tasksanswer.go
//	order.go   what both are asked for: an identity, checked by check.go; picture.go
//	codes.go   the words for what goes wrong
//
// Everything is a pure function of bytes: no call looks at a clock, a network or a
// store. What a call asks for is read strictly; a field that is given twice, or has no
// sense, makes the call one that cannot be carried out, and the code says so. A field that
// nobody here knows is named (Order.Undone), so that a service can refuse what it would
// not do.
//
// It does not judge a key or know a task.
package wire
