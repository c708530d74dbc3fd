package graph

import (
	"context"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
)

// Limits of pages. The schema's descriptions tell them.
const (
	PageDefault  = 50
	PageCap      = 1000
	pageMaxBytes = 1 << 20 // of text: a page of the longest texts would hold 8 MB
)

type size struct {
	limit   int
	fromEnd bool
}

// pageSize refuses instead of clamping: a client that asked for more must not take the page for all.
func pageSize(first, last *int32) (size, error) {
	switch {
	case first != nil && last != nil:
		return size{}, badRequest("Give first or last, not both; at most %d.", PageCap)
	case first != nil:
		return sized("first", *first, false)
	case last != nil:
		return sized("last", *last, true)
	}
	return size{limit: PageDefault}, nil
}

func sized(argument string, n int32, fromEnd bool) (size, error) {
	if n < 0 || n > PageCap {
		return size{}, badRequest("%s must be from 0 to %d; get more with cursors.", argument, PageCap)
	}
	return size{limit: int(n), fromEnd: fromEnd}, nil
}

func messagePage(ctx context.Context, room domain.Room, s size, after, before *string) (*model.MessageConnection, error) {
	r := domain.Range{Limit: s.limit, FromEnd: s.fromEnd, MaxBytes: pageMaxBytes}
	var err error
	if after != nil {
		if r.After, err = resolve(ctx, room, *after); err != nil {
			return nil, err
		}
	}
	if before != nil {
		if r.Before, err = resolve(ctx, room, *before); err != nil {
			return nil, err
		}
	}
	// Nothing can lie in there; also, to the room a limit of 0 is no limit and a Before of 0 no bound.
	if s.limit == 0 || before != nil && r.Before <= r.After+1 {
		return emptyPage(ctx, room, r, before != nil)
	}
	page, err := room.Messages(ctx, r)
	if err != nil {
		return nil, err
	}
	n := len(page.Messages)
	if n == 0 {
		return emptyPage(ctx, room, r, before != nil)
	}
	start := room.Cursor(&page.Messages[0]).String()
	end := room.Cursor(&page.Messages[n-1]).String()
	return &model.MessageConnection{
		Edges: model.MessageEdges(room, page.Messages),
		PageInfo: &model.PageInfo{
			HasPreviousPage: page.HasPrevious,
			HasNextPage:     page.HasNext,
			StartCursor:     &start,
			EndCursor:       &end,
		},
	}, nil
}

// emptyPage stands between two messages: where it was asked to begin, or to end when it was asked for the end.
func emptyPage(ctx context.Context, room domain.Room, r domain.Range, bounded bool) (*model.MessageConnection, error) {
	oldest, newest, err := room.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	at := r.After // the last message before the page
	switch {
	case r.FromEnd && bounded:
		at = r.Before - 1
	case r.FromEnd:
		at = newest
	}
	return &model.MessageConnection{
		Edges: []model.MessageEdge{},
		PageInfo: &model.PageInfo{
			HasPreviousPage: at >= oldest && newest >= oldest,
			HasNextPage:     newest > max(at, oldest-1),
		},
	}, nil
}

func resolve(ctx context.Context, room domain.Room, cursor string) (domain.Serial, error) {
	c, err := domain.ParseCursor(cursor)
	if err != nil {
		return 0, err
	}
	return room.Resolve(ctx, c)
}
