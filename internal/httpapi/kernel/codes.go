package kernel

import "net/http"

// Code is the stable word of a problem, for programs; docs/api.md lists all of them.
type Code string

// meaning is the HTTP status and the title of a problem.
type meaning struct {
	status int
	title  string
}

var meanings = map[Code]meaning{}

func define(code Code, status int, title string) Code {
	meanings[code] = meaning{status, title}
	return code
}

// The codes.
var (
	CodeBadRequest      = define("bad_request", http.StatusBadRequest, "The request is malformed")
	CodeUnauthorized    = define("unauthorized", http.StatusUnauthorized, "A key is needed")
	CodeForbidden       = define("forbidden", http.StatusForbidden, "This caller may not do that")
	CodeUnknownTarget   = define("unknown_target", http.StatusNotFound, "There is no such target")
	CodeUnknownToken    = define("unknown_token", http.StatusNotFound, "There is no such token")
	CodeUnknownSolve    = define("unknown_solve", http.StatusNotFound, "There is no such solve")
	CodeNoHistory       = define("no_history", http.StatusNotFound, "No history is kept")
	CodeNoAudit         = define("no_audit", http.StatusNotFound, "No audit is kept")
	CodeNotFound        = define("not_found", http.StatusNotFound, "There is no such page")
	CodeMethod          = define("method_not_allowed", http.StatusMethodNotAllowed, "The method is not allowed here")
	CodeConflict        = define("idempotency_conflict", http.StatusConflict, "The Idempotency-Key was used for another request")
	CodeReported        = define("already_reported", http.StatusConflict, "The token was reported before")
	CodePausedInFile    = define("paused_in_file", http.StatusConflict, "The target is paused in the configuration file")
	CodeWindows         = define("too_many_windows", http.StatusConflict, "The target has too many warm windows")
	CodeTooLarge        = define("too_large", http.StatusRequestEntityTooLarge, "The body is too large")
	CodeMisdirected     = define("misdirected_request", http.StatusMisdirectedRequest, "The Host is not this machine")
	CodeInvalidConfig   = define("invalid_config", http.StatusUnprocessableEntity, "The configuration file is not valid")
	CodeRateLimited     = define("rate_limited", http.StatusTooManyRequests, "Too many requests")
	CodeInternal        = define("internal", http.StatusInternalServerError, "Something went wrong inside poold")
	CodePoolEmpty       = define("pool_empty", http.StatusServiceUnavailable, "No token is ready")
	CodePaused          = define("paused", http.StatusServiceUnavailable, "No token is ready and buying is paused")
	CodeBudget          = define("budget_exhausted", http.StatusServiceUnavailable, "No token is ready and the budget is used up")
	CodeProviderDown    = define("provider_down", http.StatusServiceUnavailable, "No token is ready and no provider can be asked")
	CodeStoreDown       = define("store_down", http.StatusServiceUnavailable, "The store cannot be used")
	CodeShuttingDown    = define("shutting_down", http.StatusServiceUnavailable, "The daemon is stopping")
	CodeStreams         = define("too_many_streams", http.StatusServiceUnavailable, "Too many streams are open")
	CodeOverloaded      = define("overloaded", http.StatusServiceUnavailable, "Too many large bodies wait")
	CodeSolveRefused    = define("solve_refused", http.StatusUnprocessableEntity, "The solving service refuses this")
	CodeUnknownProvider = define("unknown_provider", http.StatusNotFound, "There is no such provider")
	CodeSolveFailed     = define("solve_failed", http.StatusBadGateway, "The solving service brought no token")
	CodeSolveTimeout    = define("solve_timeout", http.StatusGatewayTimeout, "No token came in time")
)
