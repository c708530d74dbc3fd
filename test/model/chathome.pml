/*
 * One shard, two instances, two messages, a log that Kafka keeps, and a network that loses, delays and doubles
 * produce requests. docs/MODEL.md says what is modelled and what is left out; run.sh checks it.
 *
 * How to read it: each proctype (broker.pml, group.pml, instance.pml) is a loop over the things that may happen next,
 * in any order and any number of times. Each is one atomic step, so everything that is remembered between steps is in
 * the variables of this file. A printf tells the step in words; it shows in counterexamples only.
 *
 * Where -DNAME switches off a rule of the product, that is a broken variant: it has to fail (run.sh lists them).
 */

#ifndef LOG
#define LOG 5 /* records of the log that somebody may still have to read; older ones are summed up (tidy.pml) */
#endif
#ifndef NET
#define NET 3 /* produce requests under way at a time: 2 to 4 */
#endif

#define A 0
#define B 1
#define NONE 2
#define other(i) (1 - (i))

/* ---- The log ----------------------------------------------------------------------------------------------------
 *
 * A record counts if and only if it landed at the offset it names (record.View.Counts). That depends on the record and
 * its offset alone and never changes, so it is judged once, when the record lands, and the log keeps what counts: a
 * takeover and who made it, a message with its writer, id and serial, or VOID.
 */
#define EMPTY 0
#define VOID 1
#define TAKEOVER(p) (2 + (p)) /* p: A, B, or DEAD */
#define DEAD 2                /* a process that has died: nobody calls its takeovers his own (takeover.go: mine) */
#define MESSAGE(i, m, s) (16 + 8 * (i) + 4 * (m) + (s))
#define isTakeover(r) ((r) >= 2 && (r) <= 4)
#define isMessage(r) ((r) >= 16)
#define idOf(r) (((r) >> 2) & 1)
#define serialOf(r) ((r) & 3)

#ifdef NO_AT
#define counts(at, offset) true
#else
#define counts(at, offset) ((at) == (offset))
#endif

byte log[LOG];
byte end;                  /* offset of the next record */
byte pastX, pastY;         /* serials of x and y in the part of the log that was summed up; 0: not there */

/* ---- Produce requests under way (kafkalog/append.go: one request carries one record batch) ---------------------- */

#define FREE 0
#define FLYING 1 /* on its way to the broker */
#define LANDED 2 /* appended; the answer is on its way back */

#define NOBODY 0 /* waits for the answer: the sender timed out, or died, or its tenure ended with nothing to answer */
#define TENURE 1 /* the current tenure of the instance waits */
#define ENDED 2  /* an ended tenure waits, which only answers (tenure.go: commit) */

typedef Request {
	unsigned state : 2;
	unsigned waits : 2;
	bit takeover;        /* one takeover record; else a batch of n messages */
	unsigned from : 2;   /* A, B, DEAD */
	unsigned n : 2;
	bit first;           /* the batch's first message; the second is the other one */
	unsigned serial : 2; /* of the first message */
	unsigned base : 4;   /* the offset that the first record names */
	unsigned landed : 4; /* while LANDED: where */
	bit unclear;         /* an earlier copy of the batch ended without an answer (decide.go: batch.unclear) */
	unsigned no : 2;     /* ghost: record 1, 2 of the batch was answered "not stored" */
}
Request net[NET];
#define NEVER 15 /* as base: that offset is taken, so this copy cannot count any more */

/* ---- The instances ---------------------------------------------------------------------------------------------- */

#define IDLE 0   /* in no generation: the gate is locked (gate.go: lock) */
#define TAKING 1 /* its takeover is not acknowledged yet (takeover.go) */
#define OPEN 2   /* loaded up to its takeover; reads and writes (loading.go, writer.go) */
#define FENCED 3 /* saw a foreign takeover: asks the group before it takes over again (keeper.go) */
#define DRAIN 4  /* revoked, with a batch out: the gate is locked, the tenure may still commit (tenancy.go) */

typedef Instance {
	unsigned phase : 3;
	bit lease;         /* while OPEN: membership/lease.go: Valid */
	unsigned next : 4; /* local store: the offset behind the last record applied (local.Position) */
	unsigned x : 2;    /* local store: serial of x; 0: not there */
	unsigned y : 2;
}
Instance inst[2];
#define count(i) ((inst[i].x > 0) + (inst[i].y > 0))

unsigned owner : 2 = NONE; /* what the group's coordinator believes */

/* Whose answers may leave (gate.go: enter, holds). */
#ifdef NO_LEASE
#define holds(i) (inst[i].phase == OPEN)
#else
#define holds(i) (inst[i].phase == OPEN && inst[i].lease)
#endif

/* Scratch variables: 0 between steps. */
byte k, r, m, s, f, g, o, foldX, foldY, hits, fenced, cut, until, low;
int one, two;

/* What tidy.pml has renamed. Only counterexamples (-DREPLAY) know, to tell names and offsets as they were. */
#ifdef REPLAY
byte passed, renamed, relettered;
#define NOTE(variable, value) variable = value
#else
#define passed 0
#define renamed 0
#define relettered 0
#define NOTE(variable, value) low = low
#endif
#define name(i) ((i) == DEAD -> 'Z' : 'A' + ((i) ^ renamed))   /* Z: a process that has died */
#define letter(m) ('x' + ((m) ^ relettered)) /* the two messages: x and y are their client ids */

#include "properties.pml"
#include "tidy.pml"
#include "broker.pml"
#include "group.pml"
#include "instance.pml"

init {
	atomic { run Broker(); run Member(A); run Member(B); run Keeper(A); run Keeper(B) }
}
