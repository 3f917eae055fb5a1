"""A travel desk that lives in memory: what the tools of the demonstration act on."""

from __future__ import annotations

import time
from dataclasses import dataclass

from .. import ToolError, tool, undoes

__all__ = ["Booking", "TravelDesk"]

_WEATHER = {"Lisbon": "sunny, 24 degrees", "Oslo": "snow, minus 3 degrees", "Rome": "light rain, 17 degrees"}
_PRICES = {"Lisbon": 120, "Oslo": 95, "Rome": 80}


@dataclass(frozen=True, slots=True)
class Booking:
    """A seat or a room, until it is cancelled."""

    reference: str
    kind: str
    city: str


class TravelDesk:
    """Seats, rooms, bookings and messages; its marked methods are tools.

    ``full`` names cities without a free room. ``delay`` is how many seconds each action takes, so that a person
    can watch.
    """

    def __init__(self, *, full: tuple[str, ...] = (), delay: float = 0.0) -> None:
        self.bookings: dict[str, Booking] = {}
        self.messages: list[str] = []
        self._full = full
        self._delay = delay
        self._numbers = iter(range(101, 1000))

    # ------------------------------------------------------------ tools

    @tool(repeat="safe")
    def get_weather(self, city: str) -> str:
        """Get the weather in a city.

        Args:
            city: Name of the city.
        """
        return _WEATHER[self._known(city)]

    @tool(repeat="safe")
    def find_flights(self, city: str) -> str:
        """Find flights to a city and their prices.

        Args:
            city: Name of the city.
        """
        return f"a seat on Friday for {_PRICES[self._known(city)]} euros"

    @tool
    def book_flight(self, city: str) -> Booking:
        """Book a flight to a city.

        Args:
            city: Name of the city.
        """
        return self._book("flight", city)

    @tool
    def book_hotel(self, city: str) -> Booking:
        """Book a hotel room in a city.

        Args:
            city: Name of the city.
        """
        if self._known(city) in self._full:
            raise ToolError(f"No room is free in {city}.")
        return self._book("hotel", city)

    @tool
    def send_message(self, text: str) -> str:
        """Send a message to the traveller.

        Args:
            text: What to say.
        """
        time.sleep(self._delay)
        self.messages.append(text)
        return "sent"

    # ------------------------------------------------------------ their undos

    @undoes(book_flight)
    def cancel_flight(self, booking: Booking) -> None:
        """Give the seat back."""
        self._cancel(booking)

    @undoes(book_hotel)
    def cancel_hotel(self, booking: Booking) -> None:
        """Give the room back."""
        self._cancel(booking)

    # ------------------------------------------------------------ inside

    def _known(self, city: str) -> str:
        time.sleep(self._delay)
        for name in _WEATHER:
            if name.lower() == city.strip().lower():
                return name
        raise ToolError(f"This desk knows {', '.join(_WEATHER)}, but not {city!r}.")

    def _book(self, kind: str, city: str) -> Booking:
        booking = Booking(f"{kind[0].upper()}{next(self._numbers)}", kind, self._known(city))
        self.bookings[booking.reference] = booking
        return booking

    def _cancel(self, booking: Booking) -> None:
        time.sleep(self._delay)
        del self.bookings[booking.reference]
