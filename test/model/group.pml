/* The consumer group (membership, tenancy.go). Time is left out but for one thing: the lease of an instance has ended
 * before the group gives its shard away (membership/timeouts.go sees to that). */

/* The current tenure of i ends. What is out keeps its waiter, who may only answer; a takeover needs no answer. */
inline endTenure(i) {
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].state != FREE && net[g].from == i && net[g].waits == TENURE && net[g].takeover -> abandon(g)
		:: net[g].state != FREE && net[g].from == i && net[g].waits == TENURE && !net[g].takeover -> net[g].waits = ENDED
		:: else
		fi;
		g++
	:: else -> break
	od;
	forget(i)
}

/* The group learns sooner or later that i has left; nothing depends on when. */
inline leave(i) {
	if
	:: owner == i -> owner = NONE
	:: else
	fi
}

/* The process dies and starts anew. What is under way stays under way. */
inline die(i) {
	inst[i].phase = IDLE;
	leave(i);
	g = 0;
	do
	:: g < NET ->
		if
		:: net[g].state != FREE && net[g].from == i && net[g].waits != NOBODY -> abandon(g)
		:: else
		fi;
		if
		:: net[g].state != FREE && net[g].from == i && net[g].takeover -> net[g].from = DEAD
		:: else
		fi;
		g++
	:: else -> break
	od;
	g = 0;
	do
	:: g < end ->
		if
		:: log[g] == TAKEOVER(i) -> log[g] = TAKEOVER(DEAD)
		:: else
		fi;
		g++
	:: else -> break
	od;
	forget(i)
}

/* Does the current tenure of i wait for an answer, or an ended one? */
#define waitsFor(i, j, who) (net[j].state != FREE && net[j].from == i && net[j].waits == who)
#if NET == 2
#define anyWaits(i, who) (waitsFor(i, 0, who) || waitsFor(i, 1, who))
#elif NET == 3
#define anyWaits(i, who) (waitsFor(i, 0, who) || waitsFor(i, 1, who) || waitsFor(i, 2, who))
#else
#define anyWaits(i, who) (waitsFor(i, 0, who) || waitsFor(i, 1, who) || waitsFor(i, 2, who) || waitsFor(i, 3, who))
#endif
#define waiting(i) anyWaits(i, TENURE)
#define waitsEnded(i) anyWaits(i, ENDED)

#define inGeneration(i) (inst[i].phase != IDLE && inst[i].phase != DRAIN)

/* One member of the group. */
proctype Member(bit i) {
	do
	:: atomic {
		if
		/* Home.Assigned. */
		:: owner == NONE && inst[i].phase == IDLE -> d_step {
			owner = i; inst[i].phase = TAKING;
			printf("the group assigns the shard to %c\n", name(i))
		}

		/* Home.Revoked, by the group's wish, at a stop, or when an instance notices late. The gate is locked at once. */
		:: inGeneration(i) -> d_step {
			printf("%c locks its gate: its generation is over\n", name(i));
			leave(i);
			if
			:: inst[i].phase == OPEN && waiting(i) -> inst[i].phase = DRAIN; inst[i].lease = 0
			:: else -> inst[i].phase = IDLE; endTenure(i)
			fi
		}
		:: inst[i].phase == DRAIN -> d_step { /* the batch has no end within the drain time */
			inst[i].phase = IDLE; endTenure(i);
			printf("%c ends its tenure with a batch out\n", name(i))
		}

		/* membership/lease.go */
		:: inst[i].lease -> d_step {
			inst[i].lease = 0;
			printf("the lease of %c lapses: it is paused, or cut off\n", name(i))
		}
		:: owner == i && inst[i].phase == OPEN && !inst[i].lease -> d_step {
			inst[i].lease = 1;
			printf("a heartbeat of %c succeeds: its lease is valid\n", name(i))
		}

		/* Its session is over: it was silent for so long that its lease has ended. */
#ifdef LEASE_TOO_LONG
		:: owner == i -> d_step {
#else
		:: owner == i && !inst[i].lease -> d_step {
#endif
			owner = NONE;
			printf("the group gives %c up\n", name(i))
		}

		:: inst[i].phase != IDLE || waitsEnded(i) -> d_step {
			die(i);
			printf("%c dies and starts again\n", name(i))
		}
		fi;
		d_step { tidy() }
	}
	od
}
