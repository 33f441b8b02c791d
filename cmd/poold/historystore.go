package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"poold/internal/backend"
	"poold/internal/history"
	"poold/internal/history/dynamostore"
	"poold/internal/history/pgstore"
	"poold/internal/history/redisstore"
	"poold/internal/httpapi"
	"poold/internal/httpapi/delivery"
	"poold/internal/httpapi/historyapi"
	"poold/internal/outcomes"
	"poold/internal/postgres"
	"poold/internal/purchase"
	"poold/internal/redisdb"
	"poold/internal/status"
	"poold/internal/targets"
)

// keeper contains the parts of the history and of the audit. A part that is switched off in the
// configuration file is nil.
type keeper struct {
	store   store
	db      *postgres.DB // nil if the store is another one
	look    *firstLook   // nil if the start does not check this store
	sender  *history.Sender
	active  bool // the sender needs the rows of purchases; see purchase.Config
	auditor *history.Auditor
	runs    []part
	notes   []part // parts that write a last time when they stop, so they must stop before the connections close
	close   func() // closes the store; nil if the start failed before openHistory
}

// store is one of the stores of the history.
type store interface {
	history.Store
	history.Audit
}

// openHistory opens the store that pools.yaml selects in its section `history`. openHistory does not wait for
// a connection. While the store is unavailable, the rows of ended orders wait in Redis.
func openHistory(ctx context.Context, wanted targets.History, db *redisdb.DB, outbox history.Outbox, log *slog.Logger) (k keeper, err error) {
	var active history.ActiveStore // nil = no other program reads the orders in flight
	k.close = func() {}
	switch wanted.Backend {
	case targets.HistoryNone:
		return k, nil
	case targets.HistoryPostgres:
		pg, look, err := openPostgres(ctx, "history.url", wanted.URL, log)
		if err != nil {
			return k, err
		}
		kept := pgstore.New(pg, pgstore.Options{Keep: wanted.Keep, KeepAudit: wanted.Audit})
		k.store, k.db, k.look, k.close, k.runs = kept, pg, look, func() { look.end(); pg.Close() }, append(k.runs, kept.Run)
	case targets.HistoryDynamoDB:
		table, look, err := openTable(ctx, wanted, log)
		if err != nil {
			return k, err
		}
		k.store, k.look, k.close = table, look, func() { look.end(); table.Close() }
		if k.active = wanted.ActiveItems; k.active {
			active = table
		}
	case targets.HistoryRedis:
		k.store = redisstore.New(db, redisstore.Options{Keep: wanted.Keep, KeepAudit: wanted.Audit})
	}
	k.sender = history.NewSender(outbox, k.store, active, log)
	k.runs = append(k.runs, k.sender.Run)
	if wanted.Audit > 0 {
		k.auditor = history.NewAuditor(k.store, log)
		k.notes = append(k.notes, k.auditor.Run)
	}
	return k, nil
}

// tableLimit is the timeout for the first check of the DynamoDB table.
const tableLimit = 10 * time.Second

// openTable opens the DynamoDB table of the history and starts a background check of the table. The
// check fails if the table's keys or settings differ from the keys or settings that poold needs. It
// does not fail if the table is unreadable, because the table may become readable later.
func openTable(ctx context.Context, wanted targets.History, log *slog.Logger) (*dynamostore.Store, *firstLook, error) {
	table, err := dynamostore.Open(ctx, backend.TableOptions(wanted))
	if err != nil {
		return nil, nil, fmt.Errorf("history: %w", err)
	}
	return table, lookAt(ctx, "history", func(ctx context.Context) error {
		limited, cancel := context.WithTimeout(ctx, tableLimit)
		defer cancel()
		err := table.Check(limited)
		if ctx.Err() != nil { // the daemon is stopping
			return nil
		}
		if errors.Is(err, history.ErrDown) || limited.Err() != nil {
			log.Warn("the table of the history cannot be inspected", "err", err)
			return nil
		}
		return err
	}), nil
}

// health returns the source of the history's health. It returns nil if no history is kept.
func (k keeper) health() status.HistoryHealth {
	if k.sender == nil {
		return nil
	}
	return k.sender
}

// reader returns the reader of the history. It returns nil if no history is kept.
func (k keeper) reader() historyapi.Store {
	if k.store == nil {
		return nil
	}
	return k.store
}

// audit returns three parts of the audit: its writer, its reader, and the source of its health. All
// three are nil if no audit is kept.
func (k keeper) audit() (delivery.Auditor, historyapi.Audit, status.AuditHealth) {
	if k.auditor == nil {
		return nil, nil, nil
	}
	return k.auditor, k.store, k.auditor
}

// observer passes the events of orders to the metrics, to the outcomes and to the history.
type observer struct {
	*httpapi.Metrics
	outcomes *outcomes.Book
	history  *history.Sender // nil = no history is kept
}

// Ended implements purchase.Observer.
func (o observer) Ended(p purchase.Purchase) {
	o.Metrics.Ended(p)
	o.outcomes.Ended(p)
	if o.history != nil {
		o.history.Ended()
	}
}
