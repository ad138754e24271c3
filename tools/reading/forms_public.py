"""Minutes, notices, reports of newspapers, inspections, lives and guides, as prose.py reads them."""

TEXT = r"""
form minutes
part club=brand day=date place=room head=person hour=hour
open Minutes of the {club} [committee|society|council], {day}, {place}. [In the chair|Chair]: {head}. [Begin|Start]: {hour}.
open # {club} [Society|Committee]: minutes of {day}\n\nThe meeting was held in {place} and opened by {head} at {hour}.
open {club} Club. Meeting of {day}\nPresent: the members, with {head} presiding. The meeting in {place} began at {hour}.
close The meeting [closed|ended] without further business.
close There was no other business.
ask head: Who [presided|was in the chair] at the {club} meeting? | Who opened the meeting of {day}?
ask place: Where was the {club} meeting held? | In which room was the meeting of {day}?
ask hour: When did the {club} meeting begin? | At what time did the meeting of {day} start?
ask day: On what day was the {club} meeting? | What is the date of the {club} minutes?
frame who=person object=object cost=price firm=firm
say {who} reported that the {object} will be repaired by {firm} for {cost}. This was agreed.
say The offer of {firm} to repair the {object} for {cost} was accepted. {who} will place the order.
say It was resolved to have the {object} mended. {firm} asks {cost} for the work; {who} is to supervise it.
ask firm: Who will repair the {object}? | Which firm mends the {object}? | Whose offer was accepted for the {object}?
ask cost: What will the repair of the {object} cost? | How much does {firm} ask? | For how much will the {object} be mended?
ask who: Who [reported on|looks after] the repair of the {object}? | Who has to do with the order to {firm}?
ask object: What will {firm} repair? | What is to be mended for {cost}?
frame who=person role=role votes=small against=small
say {who} was elected {role} with {votes} votes to {against}.
say The new {role} is {who}, by {votes} votes; {against} were against.
ask who: Who was elected {role}? | Who is the new {role}? | Who got {votes} votes?
ask role: As what was {who} elected? | What office does {who} have now?
ask votes: How many votes did {who} get? | With how many votes was the {role} elected?
ask against: How many [voted against|votes were against] {who}?
frame event=event date=date place=place who=person
say The {event} will take place on {date} in {place}. {who} takes care of the [tickets|invitations|food].
say {who} proposed {place} for the {event}; the date is {date}.
ask date: When is the {event}? | On what day does the {event} take place?
ask place: Where is the {event} held? | Which place was chosen for the {event}?
ask who: Who [proposed the place of|has a task for] the {event}? | Who is named beside the {event}?
ask event: What takes place on {date}? | Which event is held in {place}?
frame fund=price gift=price giver=person use=deed
say The accounts show {fund}. {giver} has given {gift} more, to {use}.
say There are {fund} in the fund, to which {giver} added {gift}. The gift is meant to {use}.
ask fund: How much is in the fund? | What do the accounts show?
ask gift: How much did {giver} give? | How large is the gift?
ask giver: Who gave {gift}? | From whom is the gift?
ask use: What is the gift [for|meant to do]? | For what did {giver} give money?
frame who=person trouble=trouble day=weekday
say {who} complained that {trouble}, and asked that it be seen to by {day}.
say A complaint was read: {trouble}, wrote {who}. It is to be settled by {day}.
ask who: Who complained? | From whom was the complaint?
ask trouble: What did {who} complain of? | What was the complaint?
ask day: By when is the complaint to be settled? | By what day should it be seen to?
frame next=date where=room who=person
say The next meeting is on {next} in {where}; {who} will take the minutes.
say Next time, on {next}, the members meet in {where}, and {who} keeps the minutes.
ask next: When is the next meeting? | On what date do the members meet next?
ask where: Where is the next meeting? | In which room will they meet next?
ask who: Who will [take|keep] the minutes [next time|of the next meeting]?

form notice
part office=firm phone=phone
open NOTICE
open [Notice|To all residents|To our guests|Attention]
close {office}, telephone {phone}
close [Questions?|For questions:] {office}, {phone}.
ask phone: What is the telephone number of {office}? | Under which number can {office} be reached?
ask office: Who put up the notice with the number {phone}? | Who answers questions at {phone}?
frame place=room day=date end=date why=deed
say {Place} is closed from {day} to {end}, because we have to {why}.
say From {day} until {end} nobody can use {place}: workers {why} there.
ask day: From when is {place} closed? | On what day does the closing of {place} begin?
ask end: Until when is {place} closed? | On what day does the closing of {place} end?
ask why: Why is {place} closed? | What is done while {place} is closed?
ask place: What is closed from {day}? | What cannot be used until {end}?
frame day=weekday hour=hour what=goods place=street
say {Day} at {hour} [glass and|old] {what} will be collected in front of {place}.
say Please bring {what} to {place} on {day}, at {hour}; they will be taken away there.
ask hour: At what time [are|is] the {what} collected?
ask day: On which day [are|is] the {what} collected?
ask what: What is collected at {place}? | What is taken away on {day}?
ask place: Where [are|is] the {what} collected? | To which address is {what} brought?
frame pet=beast name=made place=street reward=price who=person
say Lost: a {pet} that answers to {name}, last seen near {place}. {who} pays {reward} to whoever finds it.
say Have you seen {name}? The {pet} of {who} ran away at {place}. Reward: {reward}.
ask name: What is the lost {pet} called? | To what name does the {pet} answer?
ask place: Where was [{name}|the {pet}] last seen? | Where did [{name}|the {pet}] run away?
ask reward: What is the reward for {name}? | How much does {who} pay?
ask who: Who has lost {name}? | Whose {pet} is lost?
ask pet: What kind of animal is {name}? | What has {who} lost?
frame fine=price rule=object who=role
say Whoever leaves things on the {rule} pays {fine}, says the {who}.
say The {who} reminds you that parking beside the {rule} costs {fine}.
ask fine: How much does one pay [there|beside the {rule}]? | What does it cost to disturb the {rule}?
ask who: Who [says so|reminds the readers] about the {rule}?
frame water=hour back=hour street=street cause=trouble
say There will be no water in {street} between {water} and {back}, since {cause}.
say {street} is without water from {water} on, until {back}. The reason: {cause}.
ask water: From what time is there no water[ in {street}]? | When is the water turned off?
ask back: Until when is there no water[ in {street}]? | When does the water come back?
ask street: Where is there no water? | Which street is without water?
ask cause: Why is there no water? | What is the reason for the lack of water?
frame event=event day=date hour=hour place=room fee=price
say You are invited to the {event} on {day} at {hour} in {place}. Entrance: {fee}.
say {Event}: {day}, {hour}, {place}. Tickets are {fee} [each|at the door].
ask day: When is the {event}? | On what date is the {event}?
ask hour: At what time [does|will] the {event} begin?
ask place: Where is the {event}? | In which room is the {event}?
ask fee: What does the {event} cost? | How much is a ticket for the {event}?

form report
part paper=title writer=person
open [By|From our reporter] {writer}, The {paper}
open The {paper}. Report by {writer}
ask writer: Who wrote the report in The {paper}? | Which reporter wrote for The {paper}?
ask paper: In which paper was the report of {writer}? | For which paper does {writer} write?
frame town=place lost=price thing=the_thing who=person day=weekday
say On {day} night burglars took {thing} from a house in {town}. It belongs to {who} and is worth {lost}.
say {thing} of {who} was stolen in {town} on {day}. The owner puts its value at {lost}.
ask town: In which town was {thing} stolen? | Where did the burglars come?
ask lost: What is {thing} worth? | How much is the stolen thing worth?
ask who: To whom does {thing} belong? | Who is the owner of {thing}?
ask thing: What was stolen[ in {town}| from {who}]?
ask day: On which day was {thing} stolen? | When did the burglars come to {town}?
frame firm=firm town=place jobs=number year=year
say {firm} will build a [factory|plant|warehouse] in {town} and offer {jobs} jobs. The firm was founded in {year}.
say In {town}, {jobs} people will find work with {firm}, a firm that [goes back to|dates from] {year}.
ask firm: Who builds in {town}? | Which firm comes to {town}? | Which firm dates from {year}?
ask jobs: How many jobs will there be in {town}? | For how many people has {firm} work?
ask town: Where does {firm} build? | In which town are the {jobs} jobs?
ask year: When was {firm} founded? | From which year is {firm}?
frame team=brand other=brand goals=small who=person crowd=number
say {team} beat {other} by {goals} points before {crowd} spectators; {who} scored most of them.
say Thanks to {who}, {team} won against {other} with a lead of {goals}. {crowd} people watched.
ask team: Who won against {other}? | Which team won?
ask other: Who lost against {team}? | Which team lost?
ask goals: By how many points did {team} win? | How large was the lead of {team}?
ask who: Who scored most? | To whom does {team} owe the win?
ask crowd: How many people watched {team}? | How many spectators were there?
frame river=made rise=length town=place houses=number
say The river {river} rose by {rise} at {town}, and {houses} houses stood in water.
say After the rain the {river} flooded {houses} houses in {town}; it had risen {rise}.
ask rise: By how much did the [river |]{river} rise? | How far did the water rise at {town}?
ask houses: How many houses were flooded? | How many houses stood in water in {town}?
ask town: Which town was flooded by the {river}? | Where did the {river} flood houses?
ask river: Which river flooded {town}? | What is the river at {town} called?
frame who=person age=small record=duration what=object
say {who} sat on the {what} for {record}, a record. [He|She] had begun {age} days before the fair.
say With {record} on a {what}, {who} holds the record now, after training for {age} days.
ask record: How long [did {who} sit there|is the record]?
ask what: On what did {who} set the record? | Where did {who} sit?
ask who: Who holds the record? | Who set a record on the {what}?
frame share=percent ask=number about=deed town=place
say Of {ask} people who were asked in {town}, {share} want to {about}.
say {share} of the {ask} people asked in {town} would {about}.
ask share: How many of those asked [want to|would] {about}? | Which share of the people would {about}?
ask ask: How many people were asked[ in {town}]?
ask about: What do {share} of the people in {town} want to do? | What were the people of {town} asked about?
ask town: Where were people asked? | In which town were {ask} people asked?

form inspection
part place=street by=person day=date code=code
open Inspection of {place}, {day}. File {code}. Inspector: {by}.
open Report {code}: on {day}, {by} inspected {place}.
ask by: Who inspected {place}? | Who wrote report {code}?
ask day: When was {place} inspected? | What is the date of report {code}?
ask code: What is the number of the report on {place}? | Which file is about {place}?
ask place: Which place was inspected [by {by}|on {day}]? | What is report {code} about?
frame fault=trouble room=room term=duration who=firm
say In {room} it was found that {fault}. {who} has to mend it within {term}.
say {Fault}, as was seen in {room}; {who} has {term} to put it right.
ask fault: What was found in {room}? | What is wrong in {room}?
ask room: Where was the fault found? | In which room must {who} work?
ask term: How long [has {who} for it|may the mending take]? | Within what time must it be mended?
ask who: Who [must|has to] mend it? | Which firm has to work in {room}?
frame meter=number gas=number level=percent
say The water meter stands at {meter}, the gas meter at {gas}. Damp: {level}.
say Meters: water {meter}, gas {gas}; the walls have {level} of damp.
ask meter: At what does the water meter stand? | What does the water meter show?
ask gas: At what does the gas meter stand? | What does the gas meter show?
ask level: How damp are the walls? | How much damp was measured?
frame alarms=small doors=small exit=colour
say There are {alarms} smoke alarms and {doors} fire doors. The emergency exit is painted {exit}.
say {Alarms} alarms and {doors} doors against fire were counted; the {exit} exit was free.
ask alarms: How many [smoke |]alarms are there? | How many alarms were counted?
ask doors: How many [fire doors|doors against fire] are there?
ask exit: What colour is the exit? | In what colour is the exit painted?

form life
part who=person born=place year=year trade=trade
open {who} ({year}) was born in {born} and became a {trade}.
open {who}, {trade}, was born at {born} in {year}.
ask born: Where was {who} born? | What is the birthplace of {who}?
ask year: In what year was {who} born? | When was {who} born?
ask trade: What was {who}'s [trade|profession]? | What did {who} become?
frame school=place teacher=person subject=tongue
say At school in {school} {teacher} taught the child {subject}.
say {teacher}, a teacher in {school}, gave free lessons in {subject}.
ask school: Where was the school? | In which town did {teacher} teach?
ask teacher: Who taught {subject}? | Who gave lessons in {school}?
ask subject: What did {teacher} teach? | Which language was learned at school?
frame work=title when=year price=price owner=firm
say The best known work, "{work}", was made in {when} and sold to {owner} for {price}.
say In {when} came "{work}", for which {owner} paid {price}.
ask work: What is the best known work called? | What did {owner} buy?
ask when: When was "{work}" made? | From which year is "{work}"?
ask price: For how much was "{work}" sold? | What did {owner} pay for "{work}"?
ask owner: To whom was "{work}" sold? | Who bought "{work}"?
frame spouse=person wed=year children=small home=street
say In {wed} came the marriage with {spouse}; they had {children} children and lived at {home}.
say {spouse} and {children} children shared the house at {home} from {wed} on.
ask spouse: Who shared the house at {home}? | With whom was the marriage?
ask children: How many children did they have? | How many children lived at {home}?
ask home: At what address did they live? | Where did the family live?
ask wed: In what year was the marriage? | From when on did they live with {spouse}?
frame prize=title year=year rival=person
say The {prize} Prize followed in {year}, ahead of {rival}.
say In {year} the jury gave the {prize} Prize, which {rival} had hoped for.
ask prize: Which prize was given in {year}? | What prize had {rival} hoped for?
ask year: When was the {prize} Prize given? | In which year came the {prize} Prize?
ask rival: Who had hoped for the {prize} Prize, too? | Who was the rival for the {prize} Prize?

form guide
part town=place folk=number river=made
open {town}, on the {river}, has {folk} inhabitants.
open A walk through {town} ({folk} inhabitants, on the river {river})
ask folk: How many inhabitants has {town}? | How many people live in {town}?
ask river: On which river is {town}? | Which river flows through {town}?
ask town: Which town is on the {river}? | What town does the walk go through?
frame tower=title built=year steps=number by=person
say The {tower} Tower was built by {by} in {built}; {steps} steps lead to the top.
say Climb the {steps} steps of the {tower} Tower, which {by} built in {built}.
ask built: When was the {tower} Tower built? | From which year is the {tower} Tower?
ask steps: How many steps has the {tower} Tower? | How many steps lead to the top?
ask by: Who built the {tower} Tower? | By whom was the {tower} Tower built?
ask tower: Which tower did {by} build? | What tower has {steps} steps?
frame cafe=title street=street dish=dish price=price
say For {dish} go to the {cafe} in {street}, where it costs {price}.
say The {cafe} ({street}) serves {dish} for {price}.
ask cafe: Where can one eat {dish}? | Which house serves {dish}?
ask street: What is the address of the {cafe}? | Where is the {cafe}?
ask dish: What does the {cafe} serve? | What can be eaten for {price}?
ask price: What does the {dish} cost? | How much is the {dish} at the {cafe}?
frame museum=goods open=hour shut=weekday fee=price
say The Museum of {museum} opens at {open}, but not on {shut}s. A ticket is {fee}.
say Do not miss the Museum of {museum} (closed on {shut}s, opens at {open}, {fee}).
ask open: When does the Museum of {museum} open? | At what hour does the museum open?
ask shut: On which day is the Museum of {museum} closed? | When is the museum closed?
ask fee: What does the Museum of {museum} cost? | How much is a ticket for the museum?
frame road=length where=place by=colour
say A path of {road} leads to {where}; follow the {by} signs.
say To reach {where}, follow the {by} signs for {road}.
ask road: How long is the path to {where}? | How far is it to {where}?
ask where: Where do the {by} signs lead? | To which place does the path lead?
ask by: What colour are the signs to {where}? | Which signs must one follow?
"""
